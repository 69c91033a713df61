"""Settings that are faster and harm a training, planted in one that is tuned while it runs."""
