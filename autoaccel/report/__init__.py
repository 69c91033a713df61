"""What people see of a run: the terminal while it goes on and when it ends, and one HTML file to keep."""
