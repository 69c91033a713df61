"""Trainings that are tuned while they run, beside a neighbour that comes and goes."""
