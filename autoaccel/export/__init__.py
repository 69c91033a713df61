"""Recipes for other launchers: a module for each target, which renders the files and the command that start a job."""
