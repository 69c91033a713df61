"""What a tune believes of trainings by well-known packages before it measures anything."""
