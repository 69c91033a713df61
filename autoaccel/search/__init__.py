"""The search strategy; the only place that imports optuna."""
