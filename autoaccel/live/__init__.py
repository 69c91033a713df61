"""Tune while a training runs: every step that is measured is one of its own."""
