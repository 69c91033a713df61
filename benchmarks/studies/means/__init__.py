"""Simulated proofs, of processes whose mean step time is known."""
