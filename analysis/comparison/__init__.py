"""Two runs side by side; the parts of :mod:`analysis.compare`.

* :mod:`analysis.comparison.side` -- a run folder or summary.json as one side.
* :mod:`analysis.comparison.ratio` -- two sets of samples to a ratio with an interval.
* :mod:`analysis.comparison.ops` -- the ops of both sides, matched.
* :mod:`analysis.comparison.differences` -- what else differs, and what may not be compared.
* :mod:`analysis.comparison.model` -- the result, and its JSON form ``instrument-comparison/1``.
"""
