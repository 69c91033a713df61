"""Run times with more GPUs, predicted, beside a published series and a simulated cluster."""
