"""What can be changed about a script, as data: values, how each is applied, what it needs.

The values are those of tt-xla's guide to performance, of tt-crank's compile options and of
PyTorch's tuning guide; numbers of bytes and steps as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from msgspec import Struct, field

from instrumentor.shared.errors import UsageError

Value: TypeAlias = int | str | bool

#: Size of the region for runtime trace on the device, bytes (a model of 2B parameters needs 200
#: MB).
TRACE_REGION_BYTES = 10_000_000
TRACE_REGION = "TT_RUNTIME_TRACE_REGION_SIZE"
PROGRAM_CACHE = "TT_RUNTIME_ENABLE_PROGRAM_CACHE"
#: The first iteration compiles, the second captures the trace.
WARMUP = 3

_DEVICES = {
    "xla": "an XLA device",
    "tt": "tt-crank's device",
    "cpu": "the CPU",
    "cuda": "an NVIDIA GPU",
}


class Setting(Struct, frozen=True):
    """One thing that can be changed.

    Attributes:
        name: as in ``--settings``.
        values: what is tried, beside the script's own.
        option: tt-xla's global compile option that it sets; '' when it is none.
        call_option: tt-crank's option of each `torch.compile(..., backend="tt")`; '' likewise.
        yaml_key: the key of blacksmith's YAML that does the same; '' without one.
        on: types of device on which it can change anything, where no option tells; none for all.
        excludes: settings that do the same another way: only one of them is in effect.
        rising: values of which more is tried as long as it helps.
        image_batches: it can change anything only where a batch has four axes.
        needs: setting -> value that has to be in effect with it.
        default: in effect when the script says nothing; None when there is no such value.
    """

    name: str
    values: tuple[Value, ...]
    option: str = ""
    call_option: str = ""
    yaml_key: str = ""
    on: tuple[str, ...] = ()
    excludes: tuple[str, ...] = ()
    rising: bool = False
    image_batches: bool = False
    needs: Mapping[str, Value] = field(default_factory=dict)
    default: Value | None = None

    @property
    def devices(self) -> dict[str, str]:
        """Types of the devices on which it can change anything, and their names; none for all."""
        on = {"xla": self.option, "tt": self.call_option}
        found = _DEVICES.items()
        return {device: name for device, name in found if device in self.on or on.get(device)}

    def acts_on(self, device: str) -> bool:
        """Whether it can change anything on a device of this type; yes where that is unknown."""
        return not self.devices or device in (*self.devices, "unknown", "")


def _of_crank(name: str, values: tuple[Value, ...], option: str) -> Setting:
    """A compile option of tt-crank alone; the YAML has it under the same name."""
    return Setting(name, values, call_option=option, yaml_key=option)


def _of_both(name: str, values: tuple[Value, ...], option: str, default: Value) -> Setting:
    """A compile option that both runtimes and the YAML know by one name."""
    return Setting(name, values, option, option, option, default=default)


def _of_torch(name: str, *on: str, **more: Any) -> Setting:
    """A switch of PyTorch itself, off unless the script has it."""
    return Setting(name, (True,), on=on, default=False, **more)


_CPU_CUDA = ("cpu", "cuda")
DTYPE = Setting("dtype", ("bfloat16",), yaml_key="dtype", excludes=("amp",))
# The commands of a step are recorded once and replayed; shapes must stay the same.
TRACE = _of_both("trace", (True,), "enable_trace", default=False)
BATCH_SIZE = Setting("batch_size", (1, 2, 4, 8, 16, 32), yaml_key="batch_size", rising=True)

#: In the order in which they are tried: what changes the batch last, when the rest is settled.
SETTINGS: tuple[Setting, ...] = (
    # First what feeds the step: while it waits for data, nothing else is seen.
    Setting("num_workers", (2, 4, 8), rising=True, default=0),
    _of_torch("persistent_workers"),
    _of_torch("pin_memory", "cuda"),
    _of_torch("fused_optimizer", *_CPU_CUDA),
    _of_torch("channels_last", *_CPU_CUDA, image_batches=True),
    _of_torch("tf32", "cuda"),
    Setting("amp", ("bfloat16",), on=_CPU_CUDA, excludes=("dtype",)),
    _of_torch("compile", *_CPU_CUDA),
    # 1 folds and fuses, 2 also keeps tensors in SRAM; compiling takes longer.
    _of_both("optimization_level", (0, 1, 2), "optimization_level", default=0),
    DTYPE,
    # Weights and ops in bfloat8_b.
    Setting("bfp8", (True,), "enable_bfp8_conversion", needs={"dtype": "bfloat16"}, default=False),
    # Matmul weights in blocks that share an exponent: less memory traffic, less precision.
    _of_crank("weight_dtype", ("bfp_bf8", "bfp_bf4"), "experimental_weight_dtype"),
    # Fewer phases of each product: 64, 48, 32 or 16 cycles a tile.
    _of_crank("math_fidelity", ("HiFi3", "HiFi2", "LoFi"), "math_fidelity"),
    # Sums in float32 take twice the room of bfloat16 in the destination registers.
    _of_crank("fp32_accumulation", (False, True), "fp32_dest_acc_en"),
    # What depends on frozen weights alone is computed once; it takes memory.
    _of_crank("const_eval", (True, False), "enable_const_eval"),
    TRACE,
    # The optimizer's update as one compiled graph instead of op by op.
    Setting("compile_optimizer", (True,), yaml_key="compile_optimizer", on=("tt",)),
    # Fewer updates for the same samples; judged by what is timed, which may leave updates out.
    Setting("accumulation", (1, 2, 4, 8), yaml_key="gradient_accumulation_steps"),
    BATCH_SIZE,
)


def setting(name: str) -> Setting:
    """The setting of a name.

    Raises:
        UsageError: there is none.
    """
    for one in SETTINGS:
        if one.name == name:
            return one
    known = ", ".join(one.name for one in SETTINGS)
    raise UsageError(f"there is no setting {name!r}", f"Settings: {known}.")


_WORDS = {True: ("on", "true", "1"), False: ("off", "false", "0")}


def parsed(text: str) -> tuple[str, Value]:
    """`NAME=VALUE` as typed: a setting and one of its values, or a number where it takes numbers.

    Raises:
        UsageError: no such setting, or not such a value.
    """
    name, _, word = text.partition("=")
    values = setting(name).values
    for value in values:
        words = _WORDS[value] if isinstance(value, bool) else (str(value).lower(),)
        if word.lower() in words:
            return name, value
    if word.isdigit() and type(values[0]) is int:
        return name, int(word)
    known = [_WORDS[each][0] if isinstance(each, bool) else str(each) for each in values]
    hint = f"For example: --set {name}={known[-1]}"
    raise UsageError(f"--set {text}: {name} takes {', '.join(known)}", hint)


class Configuration(Struct, frozen=True):
    """What is changed together in one trial: setting -> value, in the order of SETTINGS."""

    values: tuple[tuple[str, Value], ...] = ()

    @classmethod
    def of(cls, values: Mapping[str, Value]) -> Configuration:
        """A configuration of names and values."""
        return cls(tuple((one.name, values[one.name]) for one in SETTINGS if one.name in values))

    def get(self, name: str) -> Value | None:
        """The value of a setting; None when it is left as the script has it."""
        return dict(self.values).get(name)

    def having(self, changes: Mapping[str, Value]) -> Configuration:
        """This configuration with further values."""
        return Configuration.of({**dict(self.values), **changes})

    def __str__(self) -> str:
        return ", ".join(spelled(*pair) for pair in self.values) or "baseline"


def assigned(name: str, value: Value) -> str:
    """A setting with its value, as :func:`parsed` reads it: ``amp=bfloat16``, ``tf32=on``."""
    return f"{name}={_WORDS[value][0] if isinstance(value, bool) else value}"


def spelled(name: str, value: Value) -> str:
    """A setting with its value, for people."""
    return name if value is True else f"{name} {value}"
