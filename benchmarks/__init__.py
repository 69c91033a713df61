"""What is measured of autoaccel: checks that it works with something, and studies of how good it is."""
