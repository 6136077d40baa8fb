"""From an ops CSV and a record of timings to "what is slow, and what do I do about it".

Importing the package is cheap: numpy is loaded by the modules that read ops, pandas by none.

* :func:`.summary.summarise` -- a run folder to a :class:`.model.Summary`.
* :func:`.op_report.per_op_report` -- ops CSVs to the frames of a per-op report.
* :mod:`.model` -- the dataclasses between the stages, and their JSON form.
* :mod:`.errors` -- everything raised on purpose.
"""
