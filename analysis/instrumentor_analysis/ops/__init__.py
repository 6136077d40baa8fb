"""Rows of an ops CSV to figures per op, per step and per device.

In: a table of ops with its signposts; out: times, utilisation, savings and their steps.
"""
