"""Searches on models of recorded machines."""
