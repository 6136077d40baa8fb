"""Errors, warnings, documents as JSON and whole files, for every room of the analysis.

In: values; out: the same as text, or on disk.
"""
