"""Tables of every setting of a space, and searches that are replayed on them."""
