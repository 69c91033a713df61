"""A tuning run: the straight line from a machine and a workload to a recipe, and what a run leaves on disk."""
