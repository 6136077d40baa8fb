"""What runs inside the instrumented copy: signposts, clock, barrier and records, no more.

In: calls from the inserted lines; out: `timings.jsonl`.

These modules are joined to one text (see :mod:`instrumentor.runtime.bundle`), which a run puts
beside its copy as the module ``_instrument_recorder`` and `apply` writes into the file itself. So
each imports the standard library and its neighbours only, runs on Python 3.8, keeps its
annotations such that they can be evaluated there, and has no string of several lines but
docstrings.

Where things go: a device runtime is a row of :mod:`.runtimes`; how devices are waited for is
:mod:`.barrier` alone; what else is to be known of each sample is one class in :mod:`.facts`.

The environment it reads:

* ``INSTRUMENT_RECORD``: file that gets one JSON object per event, appended at once;
* ``INSTRUMENT_PROFILER``: tracy, torch, wallclock or auto (signposts when Tracy runs the script);
* ``INSTRUMENT_STEPS``, ``INSTRUMENT_WARMUP``: instead of the numbers written into the copy, and
  ``INSTRUMENT_BUDGET_S`` with them: seconds for as many steps as the median needs;
* ``INSTRUMENT_HOOK``: file with ``open_profile(modules)`` and ``close_profile(profile, device)``,
  used for one extra step after the warm-up and some behind the samples;
* ``INSTRUMENT_LOSS``: 1 records each sample's loss, read after the clock and the barrier. Never
  by default: a loss that is read is an output of the compiled graph, which changes what is timed.
"""
