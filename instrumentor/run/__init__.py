"""A place with an instrumented script to samples and profiler files, and what went wrong.

In: a prepared script and options; out: a run folder with `run.json`, samples, logs and a report.
"""
