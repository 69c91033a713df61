"""What numbers may be said of noisy times. Pure functions, no I/O."""
