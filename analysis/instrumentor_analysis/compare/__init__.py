"""Two runs side by side; the parts of :mod:`.compare`.

* :mod:`.comparison.side` -- a run folder or summary.json as one side.
* :mod:`.comparison.ratio` -- two sets of samples to a ratio with an interval.
* :mod:`.comparison.ops` -- the ops of both sides, matched.
* :mod:`.comparison.differences` -- what else differs, and what may not be compared.
* :mod:`.comparison.model` -- the result, and its JSON form ``instrument-comparison/1``.
"""
