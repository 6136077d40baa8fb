"""From an ops CSV and a record of timings to "what is slow, and what do I do about it".

Importing the package is cheap: pandas is loaded by the functions that need it.

* :func:`analysis.summary.summarise` -- a run folder to a :class:`analysis.model.Summary`.
* :func:`analysis.report_options.per_op_report` -- ops CSVs to the frames of a per-op report.
* :mod:`analysis.model` -- the dataclasses between the stages, and their JSON form.
* :mod:`analysis.errors` -- everything raised on purpose.
"""
