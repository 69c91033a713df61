"""What the first run of a training takes that is tuned while it trains, beside the same loop in plain Python."""
