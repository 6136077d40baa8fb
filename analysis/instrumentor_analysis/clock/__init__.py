"""Samples of the wall clock to statistics: medians with intervals, drift, throughput, FLOPs.

In: the records of a run; out: figures with their uncertainty, and what makes them doubtful.
"""
