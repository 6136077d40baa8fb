"""Two runs, or two sets of runs, side by side.

In: two runs or sets of runs; out: a `Comparison` of figures and ops with intervals, or a gate.

* :mod:`.comparison.side` -- a run folder or summary.json as one side.
* :mod:`.comparison.ratio` -- two sets of samples to a ratio with an interval.
* :mod:`.comparison.ops` -- the ops of both sides, matched.
* :mod:`.comparison.differences` -- what else differs, and what may not be compared.
* :mod:`.comparison.model` -- the result, and its JSON form ``instrument-comparison/1``.
"""
