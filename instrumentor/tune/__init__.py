"""`instrument tune`: change one thing at a time, measure, keep what helps significantly.

* :mod:`instrumentor.tune.levers` -- what can be changed, as data.
* :mod:`instrumentor.tune.target` -- the script, its modules and its YAML.
* :mod:`instrumentor.tune.edits` -- a setting as edits of the copy, and as a patch for the user.
* :mod:`instrumentor.tune.trial` -- one trial, in a process of its own.
* :mod:`instrumentor.tune.executors` -- where trials run: here, or under Slurm.
* :mod:`instrumentor.tune.judge` -- a trial against the best so far.
* :mod:`instrumentor.tune.lab` -- runs trials and writes them down.
* :mod:`instrumentor.tune.search` -- which settings are tried.
* :mod:`instrumentor.tune.state` -- the journal, from which a killed search goes on.
* :mod:`instrumentor.tune.report` -- table, plot, ``best.diff``.
"""
