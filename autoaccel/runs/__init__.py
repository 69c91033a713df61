"""A run: what was asked of it, its folder, its clock and plan, and who takes part."""
