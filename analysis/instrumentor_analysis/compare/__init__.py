"""Two runs, or two sets of runs, side by side.

In: two runs or sets of runs; out: a `Comparison` of figures and ops with intervals, or a gate.

* :mod:`.side` -- a run folder or summary.json as one side.
* :mod:`.ratio` -- two sets of samples to a ratio with an interval.
* :mod:`.ops` -- the ops of both sides, matched.
* :mod:`.differences` -- what else differs, and what may not be compared.
* :mod:`.model` -- the result, and its JSON form ``instrument-comparison/1``.
"""
