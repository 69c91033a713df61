"""Checks: does autoaccel work with something?"""
