"""What checks and studies share: rows of results, time limits, tables, peers, picks side by side."""
