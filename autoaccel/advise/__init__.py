"""What holds the step back, what each remedy could win at most, and where the search should start."""
