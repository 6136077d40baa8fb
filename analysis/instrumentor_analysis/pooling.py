"""Several steps to one row per op: its mean, and how much it varies from step to step.

The n-th call of a name is one op in every step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from instrumentor_analysis.device import bound_of

if TYPE_CHECKING:
    import pandas as pd

#: What becomes a mean over the steps.
_MEANS = ("device_time_us", "gap_us", "firmware_time_us", "host_duration_us")
#: Rates of a row: they fall as its time grows.
_RATES = ("dram_gb_s", "dram_percent", "tflops", "flops_percent")


def pool(steps: Sequence[pd.DataFrame], *, per_device: bool = False) -> pd.DataFrame:
    """One per-op frame of several (:func:`instrumentor_analysis.device.per_op`), a step each.

    Args:
        per_device: rows of different devices are different ops.

    Returns:
        The rows of the last step, then those that only earlier ones have. Times and gaps are
        means over the steps that have the op, rates and bound those of the mean time; besides
        ``device_time_stdev_us`` (sample standard deviation, NaN below two) and ``steps``, how
        many had it.
    """
    import pandas as pd

    # Of merged devices a row bears the slowest one's id, which may change from step to step.
    keys = ["op_code", "device_id"] if per_device else ["op_code"]
    keyed = [
        frame.assign(
            _nth=frame.groupby(keys, dropna=False, sort=False).cumcount(),
            _step=number,
            _at=range(len(frame)),
        )
        for number, frame in enumerate(steps)
    ]
    every = pd.concat(keyed, ignore_index=True)
    groups = every.groupby([*keys, "_nth"], dropna=False, sort=False)
    which = groups.ngroup()
    shown = every.loc[every.groupby(which)["_step"].idxmax()].copy()
    shown.index = which.loc[shown.index]
    means = every.groupby(which)[list(_MEANS)].mean()
    slower = shown["device_time_us"] / means["device_time_us"]
    shown[list(_RATES)] = shown[list(_RATES)].mul(slower, axis=0)
    shown[list(_MEANS)] = means
    shown["bound"] = bound_of(shown)
    shown["device_time_stdev_us"] = every.groupby(which)["device_time_us"].std()
    shown["steps"] = every.groupby(which)["device_time_us"].size()
    order = shown.sort_values(["_step", "_at"], ascending=[False, True], kind="stable")
    return order.drop(columns=["_nth", "_step", "_at"]).reset_index(drop=True)
