"""Scripts that write to the user's files in every way: is anything changed, and do they train on the same samples?"""
