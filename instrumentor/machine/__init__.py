"""This machine: interpreters, packages, devices and their locks, load, Tracy's programs.

In: names and paths that a user or an environment gives; out: facts about what is installed here.
"""
