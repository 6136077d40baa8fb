"""Comparisons and histories of runs as documents, charts and tables.

In: a `Comparison` or rows of a history; out: a document that every format lays out.
"""
