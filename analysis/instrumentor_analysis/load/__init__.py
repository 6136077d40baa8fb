"""Run folders and ops CSVs to typed tables.

In: paths; out: one schema of columns for every format, and the facts of a run.
"""
