"""A configuration as edits of the copy, and the same changes as a patch that a user may apply."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from instrumentor.rewrite import unified_patch
from instrumentor.rewrite.engine import apply_edits
from instrumentor.rewrite.line_format import BEGIN, END, MARKER, Line, classify
from instrumentor.rewrite.prepare import Prepared, prepare
from instrumentor.shared.errors import InstrumentError, ProofFailed
from instrumentor.shared.variant import Variant
from instrumentor.tune import (
    autocast,
    batch_size,
    compile_options,
    precision,
    torch_calls,
    torch_model,
    trace,
    yaml_override,
)
from instrumentor.tune.settings import (
    BATCH_SIZE,
    SETTINGS,
    TRACE,
    TRACE_REGION,
    Configuration,
    Setting,
    Value,
)
from instrumentor.tune.statements import Changes, Way
from instrumentor.tune.target import NotApplicable, Target
from instrumentor_analysis.shared.files import read_bytes

#: How a setting acts that is no compile option and no key of the YAML.
_IN_SOURCE: Mapping[str, Callable[[Target], Way]] = {
    "num_workers": torch_calls.workers,
    "persistent_workers": torch_calls.persistent_workers,
    "pin_memory": torch_calls.pin_memory,
    "fused_optimizer": torch_calls.fused,
    "channels_last": torch_model.channels_last,
    "tf32": torch_model.tf32,
    "amp": autocast.way,
    "compile": torch_model.compiled,
    "dtype": precision.way,
}
_MARK = MARKER.encode()
_FRAME = (BEGIN.encode(), END.encode())


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


def applied(target: Target, configuration: Configuration) -> Variant:
    """A configuration as edits, data files and arguments.

    Raises:
        NotApplicable: with file, line and reason.
    """
    changes = Changes([*target.arguments])
    for setting in SETTINGS:
        value = configuration.get(setting.name)
        if value is not None:
            way_of(target, setting).apply(value, changes)
            if setting is TRACE and not compile_options.uses_crank(target):
                trace.apply(target, changes)
    # All options at once: a second call of set_custom_compile_options would replace the first.
    compile_options.apply(target, changes)
    return changes.variant()


def way_of(target: Target, setting: Setting) -> Way:
    """How a setting acts on the script: by the YAML where that has it, else by the source.

    Raises:
        NotApplicable: there is no way, or no single place.
    """
    if setting is BATCH_SIZE:
        return batch_size.way(target)
    in_yaml = yaml_override.way(target, setting)
    if in_yaml is not None:
        return in_yaml
    in_source = _IN_SOURCE.get(setting.name)
    return in_source(target) if in_source is not None else _by_option(target, setting)


def _by_option(target: Target, setting: Setting) -> Way:
    crank = compile_options.uses_crank(target)
    option = setting.call_option if crank else setting.option
    if not option:
        other = "tt-xla" if setting.option else "tt-crank" if setting.call_option else ""
        reason = f"an option of {other}, which the script does not use"
        reason = reason if other else f"the run's YAML has no {setting.yaml_key}"
        raise NotApplicable(target.script, 1, reason)
    how = f"{'tt-crank' if crank else 'tt-xla'}'s compile option {option}"
    if setting is TRACE and not crank:
        how += f", and {TRACE_REGION} before torch_xla is imported"

    def apply(value: Value, changes: Changes) -> None:
        changes.options[option] = value

    return Way(how, compile_options.own_option(target, option), apply)


def prepared(target: Target, configuration: Configuration) -> Prepared:
    """The instrumented copy of a script with a configuration, proven; nothing is written.

    Raises:
        NotApplicable: with file, line and reason.
        ProofFailed: the changes and the measuring get into each other's way.
    """
    variant = applied(target, configuration)
    options = dataclasses.replace(target.options, variant=variant)
    return prepare(target.script, options, variant.arguments)


def patch(target: Target, configuration: Configuration) -> bytes:
    """Unified diff, script as it is -> script with the configuration, for `git apply` at the root.

    Empty when only the script's arguments change.

    Raises:
        NotApplicable, ProofFailed: as :func:`prepared`.
    """
    variant = applied(target, configuration)
    files: dict[Path, tuple[bytes, bytes]] = {}
    for path in variant.modules:
        before = read_bytes(path)
        edits = [edit for file, edit in variant.edits if file == path]
        files[path.resolve()] = before, accept(apply_edits(before, edits))
    for path, data in variant.files:
        files[path.resolve()] = read_bytes(path), data
    return unified_patch(files, target.project.root)


def accept(instrumented: bytes) -> bytes:
    """A file with its edits made for good: nothing switched off is left, and no mark.

    Raises:
        ProofFailed: the result would not mean the same.
    """
    kept = [
        _unmarked(line) if kind is Line.OURS else line
        for kind, line in classify(instrumented.splitlines(keepends=True))
        if kind is not Line.OFF and not (kind is Line.OURS and line.strip() in _FRAME)
    ]
    accepted = b"".join(kept)
    # Comments are no part of the tree: without marks and disabled lines it must be the one that
    # ran.
    if ast.dump(ast.parse(accepted)) != ast.dump(ast.parse(instrumented)):
        raise ProofFailed("proof 'accepted' failed: the patch would not mean what was measured")
    return accepted


def _unmarked(line: bytes) -> bytes:
    body = line.rstrip(b"\r\n")
    newline = line[len(body) :]
    return body[: -len(_MARK)].rstrip() + newline if body.endswith(_MARK) else line


def survey(target: Target, settings: Sequence[Setting]) -> Survey:
    """For each setting where it acts, or why not: tried out on the text, nothing is run."""
    return {setting.name: _tried(target, setting) for setting in settings}


def _tried(target: Target, setting: Setting) -> Applicable | NotApplicable:
    try:
        way = way_of(target, setting)
        value = way.own[2] if way.own is not None else setting.default
        missing = missing_needs(target, setting)
        if missing:
            applied(target, Configuration.of(missing))
        other = next((v for v in setting.values if v != value), None)
        place = way.own and way.own[:2]
        if other is not None:
            changed = Configuration.of({setting.name: other})
            # Applied alone it may still get in the way of the measuring: the proofs decide.
            prepared(target, changed)
            place = place or applied(target, changed).first_line
        assert place is not None  # what the script has not itself has another value
        return Applicable(*place, way.how, value)
    except NotApplicable as error:
        return error
    except InstrumentError as error:
        return NotApplicable(target.script, 1, error.message)


def missing_needs(target: Target, setting: Setting) -> dict[str, Value]:
    """What the setting needs and the script does not have by itself: setting -> value."""
    by_name = {one.name: one for one in SETTINGS}
    missing = {}
    for name, value in setting.needs.items():
        own = way_of(target, by_name[name]).own
        if own is None or own[2] != value:
            missing[name] = value
    return missing
