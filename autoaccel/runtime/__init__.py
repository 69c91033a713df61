"""Everything that imports torch: it runs inside workers and in a user's own program, never in the tuner."""
