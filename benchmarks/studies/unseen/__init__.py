"""Trainings that no constant of the tuner was chosen by."""
