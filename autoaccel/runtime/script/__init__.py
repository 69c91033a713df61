"""Training scripts that have never heard of autoaccel: run as `__main__`, observed, measured, under settings."""
