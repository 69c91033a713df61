"""Rounding that is planted in trainings, and what is said of it."""
