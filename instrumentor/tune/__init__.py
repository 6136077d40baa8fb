"""`instrument tune`: change one setting at a time, measure, keep what helps significantly.

In: a script and the settings to try; out: trials, a recommendation and a patch.

A configuration is what is changed together; a trial measures one.

* :mod:`instrumentor.tune.settings` -- what can be changed, as data.
* :mod:`instrumentor.tune.target` -- the script, its modules and its YAML.
* :mod:`instrumentor.tune.edits` -- a configuration as edits of the copy, and as a patch.
* :mod:`instrumentor.tune.torch_calls`, :mod:`.torch_model`, :mod:`.autocast` -- PyTorch's own
  settings; :mod:`.model_places` where they act.
* :mod:`instrumentor.tune.executors` -- where trials run: here, or under Slurm.
* :mod:`instrumentor.tune.trial` -- one trial, in a process of its own.
* :mod:`instrumentor.tune.trials` -- runs trials and writes them down.
* :mod:`instrumentor.tune.judge` -- a trial against the best so far.
* :mod:`instrumentor.tune.search` -- which configurations are tried.
* :mod:`instrumentor.tune.journal` -- from which a killed search goes on.
* :mod:`instrumentor.tune.report` -- table, plot, ``best.diff``.
"""
