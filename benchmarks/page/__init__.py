"""The results page: a writer for the table of each result."""
