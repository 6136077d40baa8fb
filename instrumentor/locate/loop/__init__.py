"""Loops that hold a training step.

In: the modules of a program; out: candidate loops with their paths, backwards, steps and counters.
"""
