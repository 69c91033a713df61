"""What commands other than `tune` and `launch` do: train with a recipe, verify its claims, advise."""
