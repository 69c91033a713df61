"""Studies: how good is autoaccel?"""
