"""Public scripts and reports that no test knows: is what autoaccel believes of them right?"""
