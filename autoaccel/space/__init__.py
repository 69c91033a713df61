"""What may be changed: knobs, and the spaces in which to search for their best values."""
