"""Both halves of a run, clock and ops, to one `Summary` with a verdict.

In: a run folder; out: `summary.json` as a type, and its entry in a history.
"""
