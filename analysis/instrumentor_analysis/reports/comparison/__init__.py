"""Comparisons of runs as text for a terminal, Markdown, one HTML page, JSON.

Each format is a pure function of the comparisons, which share their base; what is said, in which
order and how it is rounded stands in :mod:`instrumentor_analysis.reports.comparison.rows`.
"""
