"""The search: its loop, what it knows, and what it tries next; the only place that imports optuna."""
