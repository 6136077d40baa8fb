"""Several steps to one row per op: its mean, and how much it varies from step to step.

The n-th call of a name is one op in every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instrumentor_analysis.device import bound_of
from instrumentor_analysis.table import Groups, Table, concat, quotient

#: What becomes a mean over the steps.
_MEANS = ("device_time_us", "gap_us", "firmware_time_us", "host_duration_us")
#: Rates of a row: they fall as its time grows.
_RATES = ("dram_gb_s", "dram_percent", "tflops", "flops_percent")


def pool(steps: Sequence[Table], *, per_device: bool = False) -> Table:
    """One per-op frame of several (:func:`instrumentor_analysis.device.per_op`), a step each.

    Args:
        per_device: rows of different devices are different ops.

    Returns:
        The rows of the last step, then those that only earlier ones have. Times and gaps are
        means over the steps that have the op, rates and bound those of the mean time; besides
        ``device_time_stdev_us`` (sample standard deviation, NaN below two) and ``steps``, how
        many had it.
    """
    # Of merged devices a row bears the slowest one's id, which may change from step to step.
    keys = ("op_code", "device_id") if per_device else ("op_code",)
    every = concat(
        [
            frame.assign(
                _nth=Groups(*(frame[key] for key in keys)).nth(),
                _step=np.full(len(frame), number),
                _at=np.arange(len(frame)),
            )
            for number, frame in enumerate(steps)
        ]
    )
    groups = Groups(*(every[key] for key in keys), every["_nth"])
    last = np.empty(len(groups), dtype=np.intp)
    # Steps stand one behind the other: the last row of a group is that of its last step.
    last[groups.which] = np.arange(len(every))
    shown = every.take(last)
    means = {name: groups.means(every[name]) for name in _MEANS}
    slower = quotient(shown["device_time_us"], means["device_time_us"])
    shown = shown.assign(
        **means,
        **{name: shown[name] * slower for name in _RATES},
        device_time_stdev_us=groups.stdevs(every["device_time_us"]),
        steps=groups.sizes,
    )
    shown = shown.assign(bound=bound_of(shown))
    order = np.lexsort((shown["_at"], -shown["_step"]))
    kept = [name for name in shown.columns if name not in ("_nth", "_step", "_at")]
    return Table({name: shown[name] for name in kept}).take(order)
