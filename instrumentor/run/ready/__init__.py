"""Whether this machine can carry out a run, before anything starts.

In: a planned run; out: checks with a remedy each (`doctor`), or the error that stops the run.
"""
