"""What proves that settings are faster and keep the metric, and what each contributes."""
