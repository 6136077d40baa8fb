"""A configuration as edits of the copy, and the same changes as a patch that a user may apply."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from instrumentor.engine import apply_edits
from instrumentor.errors import InstrumentError
from instrumentor.prepare import Prepared, prepare
from instrumentor.rewrite import unified_patch
from instrumentor.tune import (
    batch_size,
    call_options,
    compile_options,
    precision,
    trace,
    yaml_override,
)
from instrumentor.tune.accept import accept
from instrumentor.tune.settings import (
    BATCH_SIZE,
    DTYPE,
    SETTINGS,
    TRACE,
    TRACE_REGION,
    Configuration,
    Setting,
    Value,
)
from instrumentor.tune.statements import Changes
from instrumentor.tune.target import NotApplicable, Target
from instrumentor.variant import Variant


class Applied(Struct, frozen=True):
    """A configuration, ready to be run: edits, and the script's arguments as they are then."""

    variant: Variant
    arguments: tuple[str, ...]


class Applicable(Struct, frozen=True):
    """Where a setting acts on a script.

    Attributes:
        line: of ``file``; the first line that is touched.
        how: in words.
        own: the value that the script has itself; None when it is not plain to see.
    """

    file: Path
    line: int
    how: str
    own: Value | None


Survey: TypeAlias = Mapping[str, "Applicable | NotApplicable"]
Own: TypeAlias = "tuple[Path, int, Value | None]"


def applied(target: Target, configuration: Configuration) -> Applied:
    """A configuration as edits.

    Raises:
        NotApplicable: with file, line and reason.
    """
    changes = Changes()
    options: dict[str, Value] = {}
    of_calls: dict[str, Value] = {}
    crank = call_options.used(target)
    arguments = target.arguments
    for setting in SETTINGS:
        value = configuration.get(setting.name)
        if value is None:
            continue
        if setting is BATCH_SIZE:
            arguments = batch_size.apply(target, int(value), changes)
            continue
        if setting is TRACE and not crank:
            trace.apply(target, changes)
        if yaml_override.own_value(target, setting) is not None:
            yaml_override.set_value(target, setting, value, changes)
        elif setting is DTYPE:
            precision.apply(target, changes)
        elif crank and setting.call_option:
            of_calls[setting.call_option] = value
        elif setting.option and not crank:
            options[setting.option] = value
        else:
            raise _elsewhere(target, setting)
    compile_options.apply(target, options, changes)
    call_options.apply(target, of_calls, changes)
    return Applied(changes.variant(), arguments)


def _elsewhere(target: Target, setting: Setting) -> NotApplicable:
    """That a setting is another runtime's, or a key that the YAML does not have."""
    if setting.option or setting.call_option:
        other = "tt-xla" if setting.option else "tt-crank"
        return NotApplicable(
            target.script, 1, f"an option of {other}, through which it does not run"
        )
    return NotApplicable(target.script, 1, f"the run's YAML has no {setting.yaml_key}")


def prepared(target: Target, configuration: Configuration) -> Prepared:
    """The instrumented copy of a script with a configuration, proven; nothing is written.

    Raises:
        NotApplicable: with file, line and reason.
        ProofFailed: the changes and the measuring get into each other's way.
    """
    one = applied(target, configuration)
    options = dataclasses.replace(target.options, variant=one.variant)
    return prepare(target.script, options, one.arguments)


def patch(target: Target, configuration: Configuration) -> bytes:
    """Unified diff, script as it is -> script with the configuration, for `git apply` at the root.

    Empty when only the script's arguments change.

    Raises:
        NotApplicable, ProofFailed: as :func:`prepared`.
    """
    variant = applied(target, configuration).variant
    files: dict[Path, tuple[bytes, bytes]] = {}
    for path in variant.modules:
        before = path.read_bytes()
        edits = [edit for file, edit in variant.edits if file == path]
        files[path.resolve()] = before, accept(apply_edits(before, edits))
    for path, data in variant.files:
        files[path.resolve()] = path.read_bytes(), data
    return unified_patch(files, target.project.root)


def survey(target: Target, settings: Sequence[Setting]) -> Survey:
    """For each setting where it acts, or why not: tried out on the text, nothing is run."""
    return {setting.name: _tried(target, setting) for setting in settings}


def _tried(target: Target, setting: Setting) -> Applicable | NotApplicable:
    try:
        how, own = _found(target, setting)
        value = own[2] if own is not None else setting.default
        for name, needed in setting.needs.items():
            if own_dtype(target) != needed:
                applied(target, Configuration.of({name: needed}))
        other = next((v for v in setting.values if v != value), None)
        if other is not None:
            changed = Configuration.of({setting.name: other})
            prepared(target, changed)
            own = own or (*applied(target, changed).variant.first_line, value)
        assert own is not None
        return Applicable(own[0], own[1], how, value)
    except NotApplicable as error:
        return error
    except InstrumentError as error:
        return NotApplicable(target.script, 1, error.message)


def own_dtype(target: Target) -> Value | None:
    """`bfloat16` when the script is that by itself, another word or None when not."""
    _, own = _found(target, DTYPE)
    return own and own[2]


def _found(target: Target, setting: Setting) -> tuple[str, Own | None]:
    """How a setting is applied, and where the script has it itself: file, line, value.

    Raises:
        NotApplicable: there is no way, or no single place.
    """
    in_yaml = yaml_override.own_value(target, setting)
    if in_yaml is not None and target.config is not None:
        return f"{setting.yaml_key} in {target.config.path.name}", (target.config.path, *in_yaml)
    if setting is BATCH_SIZE:
        place = batch_size.find(target)
        return place.how, (place.source.path, place.line, place.value)
    if setting is DTYPE:
        return "model.to(dtype=torch.bfloat16) and inputs alike", precision.own_value(target)
    crank = call_options.used(target)
    option = setting.call_option if crank else setting.option
    if not option:
        raise _elsewhere(target, setting)
    how = f"{'tt-crank' if crank else 'tt-xla'}'s compile option {option}"
    if setting is TRACE and not crank:
        how += f", and {TRACE_REGION} before torch_xla is imported"
    return how, (call_options if crank else compile_options).own_option(target, option)
