"""Recipes for other launchers: a module for each target, which renders the files and the command that start a job."""

TARGETS = ("torchrun", "mpirun", "slurm", "local")
"""The targets that come with autoaccel: each a module here, which holds it as TARGET."""
