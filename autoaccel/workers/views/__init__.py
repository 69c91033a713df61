"""Views: a trial of a script works on the user's files as they are, and what it writes goes with it."""
