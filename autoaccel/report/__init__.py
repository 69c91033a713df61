"""What people see of a run: the terminal during the run and at its end, and one HTML file to keep."""
