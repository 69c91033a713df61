"""Worker processes of ours: what starts them, talks to them and ends them."""
