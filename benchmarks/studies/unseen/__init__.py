"""Trainings of real size, half of which no constant of the tuner was chosen by."""
