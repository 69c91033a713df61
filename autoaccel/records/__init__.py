"""Frozen records and their JSON: what the stages hand to one another, and all that is ever written to disk."""
