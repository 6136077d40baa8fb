"""The same op in several steps: its mean, and how much it varies from step to step.

The n-th call of a name is one op in every step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from instrumentor_analysis.load.table import Groups, Table, concat, quotient
from instrumentor_analysis.model import Spread
from instrumentor_analysis.ops.limits import limits
from instrumentor_analysis.ops.merge import valid_duration_ns
from instrumentor_analysis.ops.per_op import bound_of

#: What becomes a mean over the steps.
_MEANS = (
    *("device_time_us", "gap_us", "firmware_time_us", "host_duration_us", "reader_us"),
    *("compute_us", "writer_us", "unpack_us", "math_us", "pack_us", "input_wait_percent"),
    "output_wait_percent",
)
#: Rates of a row: they fall as its time grows.
_RATES = ("dram_gb_s", "dram_percent", "tflops", "flops_percent")
#: Columns of every row's place: which call of its name it is, in which step, and where in that.
_CALL, _STEP, _AT = "_call", "_step", "_at"


def _every_call(steps: Sequence[Table], *names: str) -> Table:
    """The rows of all steps one behind the other, each with its place."""
    return concat(
        [
            frame.assign(
                **{
                    _CALL: Groups(*(frame[name] for name in names)).nth(),
                    _STEP: np.full(len(frame), number),
                    _AT: np.arange(len(frame)),
                }
            )
            for number, frame in enumerate(steps)
        ]
    )


def pool(steps: Sequence[Table], *, per_device: bool = False) -> Table:
    """One per-op frame of several (:func:`instrumentor_analysis.ops.per_op.per_op`), a step each.

    Args:
        per_device: rows of different devices are different ops.

    Returns:
        The rows of the last step, then those that only earlier ones have. Times and gaps are
        means over the steps that have the op, rates and bound those of the mean time; besides
        ``device_time_stdev_us`` (sample standard deviation, NaN below two) and ``steps``, how
        many had it.
    """
    # A row of merged devices has the slowest one's id, which may change from step to step.
    names = ("op_code", "device_id") if per_device else ("op_code",)
    every = _every_call(steps, *names)
    groups = Groups(*(every[name] for name in names), every[_CALL])
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
    shown = shown.assign(bound=bound_of(shown), limits=limits(shown))
    order = np.lexsort((shown[_AT], -shown[_STEP]))
    kept = [name for name in shown.columns if name not in (_CALL, _STEP, _AT)]
    return Table({name: shown[name] for name in kept}).take(order)


def spread(steps: Sequence[Table], shown: Table, ops: Table, most: int = 10) -> tuple[Spread, ...]:
    """The ops that vary most over several steps, by standard deviation.

    Args:
        steps: merged rows per step.
        shown: those of the step that is shown, and ``ops`` their figures: an op bears its name
            with shape and its ID there.
        most: how many are returned.
    """
    if len(steps) < 2:
        return ()
    every = _every_call(
        [Table({"op": rows["op_code"], "us": valid_duration_ns(rows) / 1000}) for rows in steps],
        "op",
    )
    every = every.take(~np.isnan(every["us"]))
    calls = Groups(every["op"], every[_CALL])
    means, stdevs = calls.means(every["us"]), calls.stdevs(every["us"])
    varied = np.flatnonzero(~np.isnan(stdevs))
    varied = varied[np.argsort(-stdevs[varied], kind="stable")][:most]
    firsts = every.take(calls.first[varied]).records(("op", _CALL, _AT))
    names, ids = ops["op"].tolist(), ops["id"].tolist()
    numbers = Groups(shown["op_code"]).nth().tolist()
    here = {call: at for at, call in enumerate(zip(shown["op_code"], numbers, strict=True))}
    found: list[Spread] = []
    for group, call in zip(varied.tolist(), firsts, strict=True):
        at = here.get((call["op"], call[_CALL]))
        found.append(
            Spread(
                position=call[_AT],
                op=str(call["op"] if at is None else names[at]),
                mean_us=float(means[group]),
                stdev_us=float(stdevs[group]),
                steps=int(calls.sizes[group]),
                id=None if at is None else ids[at],
            )
        )
    return tuple(found)
