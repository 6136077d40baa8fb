"""What can be changed about a script, as data: values, how each is applied, what it needs.

The values are those of tt-xla's guide to performance and of tt-crank's compile options; numbers of
bytes and steps as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from instrumentor.errors import UsageError

Value: TypeAlias = int | str | bool

#: Room for runtime trace on the device, bytes (a model of 2B parameters needs 200 MB).
TRACE_REGION_BYTES = 10_000_000
TRACE_REGION = "TT_RUNTIME_TRACE_REGION_SIZE"
PROGRAM_CACHE = "TT_RUNTIME_ENABLE_PROGRAM_CACHE"
#: The first iteration compiles, the second captures the trace.
WARMUP = 3


_DEVICES = {"xla": "an XLA device", "tt": "tt-crank's device"}


@dataclass(frozen=True)
class Lever:
    """One thing that can be changed.

    Attributes:
        name: as in ``--levers``.
        values: what is tried, beside the script's own.
        how: how it is applied, for people.
        option: tt-xla's global compile option that it sets; '' when it is none.
        call_option: tt-crank's option of each `torch.compile(..., backend="tt")`; '' likewise.
        yaml_key: the key of blacksmith's YAML that does the same; '' without one.
        devices: types of devices on which it can change anything; empty for all.
        needs: lever -> value that has to be in effect with it.
        default: in effect when the script says nothing; None when there is no such value.
        why: what it does, and what to know of it.
    """

    name: str
    values: tuple[Value, ...]
    how: str
    why: str
    option: str = ""
    call_option: str = ""
    yaml_key: str = ""
    devices: tuple[str, ...] = ()
    needs: Mapping[str, Value] = field(default_factory=dict)
    default: Value | None = None

    @property
    def where(self) -> str:
        """The devices on which it can change anything, for people."""
        return " or ".join(_DEVICES[name] for name in self.devices)

    def acts_on(self, device: str) -> bool:
        """Whether it can change anything on a device of this type; yes where that is unknown."""
        return not self.devices or device in (*self.devices, "unknown", "")


OPTIMIZATION_LEVEL = Lever(
    "optimization_level",
    (0, 1, 2),
    "compile option optimization_level",
    "1 folds and fuses, 2 also keeps tensors in SRAM; compiling takes longer",
    option="optimization_level",
    call_option="optimization_level",
    yaml_key="optimization_level",
    devices=("xla", "tt"),
    default=0,
)
DTYPE = Lever(
    "dtype",
    ("bfloat16",),
    "model.to(dtype=torch.bfloat16) and inputs alike, or the YAML's dtype",
    "half the memory traffic of float32",
    yaml_key="dtype",
)
BFP8 = Lever(
    "bfp8",
    (True,),
    "compile option enable_bfp8_conversion",
    "weights and ops in bfloat8_b; the model has to be bfloat16 already",
    option="enable_bfp8_conversion",
    devices=("xla",),
    needs={"dtype": "bfloat16"},
    default=False,
)
TRACE = Lever(
    "trace",
    (True,),
    f"compile option enable_trace, and {TRACE_REGION} before torch_xla is imported",
    "the commands of a step are recorded once and replayed; shapes must stay the same. Wall clock "
    "only: Tracy's device profiling crashes with it",
    option="enable_trace",
    call_option="enable_trace",
    yaml_key="enable_trace",
    devices=("xla", "tt"),
    default=False,
)
WEIGHT_DTYPE = Lever(
    "weight_dtype",
    ("bfp_bf8", "bfp_bf4"),
    "tt-crank's compile option experimental_weight_dtype",
    "matmul weights in blocks that share an exponent: less memory traffic, less precision",
    call_option="experimental_weight_dtype",
    yaml_key="experimental_weight_dtype",
    devices=("tt",),
)
MATH_FIDELITY = Lever(
    "math_fidelity",
    ("HiFi3", "HiFi2", "LoFi"),
    "tt-crank's compile option math_fidelity",
    "fewer phases of each product: 64, 48, 32 or 16 cycles a tile",
    call_option="math_fidelity",
    yaml_key="math_fidelity",
    devices=("tt",),
)
FP32_ACCUMULATION = Lever(
    "fp32_accumulation",
    (False, True),
    "tt-crank's compile option fp32_dest_acc_en",
    "sums in float32 take twice the room of bfloat16 in the destination registers",
    call_option="fp32_dest_acc_en",
    yaml_key="fp32_dest_acc_en",
    devices=("tt",),
)
CONST_EVAL = Lever(
    "const_eval",
    (True, False),
    "tt-crank's compile option enable_const_eval",
    "what depends on frozen weights alone is computed once; it takes memory",
    call_option="enable_const_eval",
    yaml_key="enable_const_eval",
    devices=("tt",),
)
COMPILE_OPTIMIZER = Lever(
    "compile_optimizer",
    (True,),
    "the YAML's compile_optimizer",
    "the update as one compiled graph instead of an op after another",
    yaml_key="compile_optimizer",
    devices=("tt",),
)
ACCUMULATION = Lever(
    "accumulation",
    (1, 2, 4, 8),
    "the YAML's gradient_accumulation_steps",
    "fewer updates for the same samples; judged by what is timed, which may leave updates out",
    yaml_key="gradient_accumulation_steps",
)
BATCH_SIZE = Lever(
    "batch_size",
    (1, 2, 4, 8, 16, 32),
    "the script's own argument, the YAML's batch_size, or the number in the source",
    "judged by samples a second",
    yaml_key="batch_size",
)

#: In the order in which they are tried: what changes the batch last, when the rest is settled.
LEVERS: tuple[Lever, ...] = (
    OPTIMIZATION_LEVEL,
    DTYPE,
    BFP8,
    WEIGHT_DTYPE,
    MATH_FIDELITY,
    FP32_ACCUMULATION,
    CONST_EVAL,
    TRACE,
    COMPILE_OPTIMIZER,
    ACCUMULATION,
    BATCH_SIZE,
)


def lever(name: str) -> Lever:
    """The lever of a name.

    Raises:
        UsageError: there is none.
    """
    for one in LEVERS:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in LEVERS)
    raise UsageError(f"--settings: there is no setting {name!r}", f"Settings: {known}.")


@dataclass(frozen=True)
class Setting:
    """What is changed together in one trial: lever -> value, in the order of LEVERS."""

    values: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Setting:
        """A setting of names and values."""
        return cls(tuple((one.name, values[one.name]) for one in LEVERS if one.name in values))

    def get(self, name: str) -> Value | None:
        """The value of a lever; None when it is left as the script has it."""
        return dict(self.values).get(name)

    def having(self, changes: Mapping[str, Value]) -> Setting:
        """This setting with further values."""
        return Setting.of({**dict(self.values), **changes})

    def without(self, name: str) -> Setting:
        """This setting with one lever left to the script."""
        return Setting(tuple(pair for pair in self.values if pair[0] != name))

    def __str__(self) -> str:
        return ", ".join(spelled(*pair) for pair in self.values) or "baseline"

    def to_json(self) -> dict[str, Any]:
        """Lever -> value."""
        return dict(self.values)


def spelled(name: str, value: Value) -> str:
    """A lever with its value, for people."""
    return name if value is True else f"{name} {value}"
