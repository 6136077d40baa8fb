"""Comparisons and histories of runs as documents, charts and tables."""
