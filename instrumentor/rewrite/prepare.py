"""A script on disk -> everything that is known about it before anything runs."""

from __future__ import annotations

import ast
import difflib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from instrumentor.locate import locate_file, parse_source
from instrumentor.locate.experiment_yaml import config_path, read_config
from instrumentor.locate.located import Declined, Located, Reason
from instrumentor.plan import Plan, explain_declined, make_plan
from instrumentor.plan.passes.recorder import NAME as RECORDER
from instrumentor.plan.passes.recorder import import_of
from instrumentor.read.syntax import Source, parse
from instrumentor.rewrite import Instrumented, Noted, instrument, refuse_instrumented, unified_patch
from instrumentor.runtime.bundle import MODULE, module_text
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor.shared.project import Project, find_project, python_path
from instrumentor.shared.variant import Variant
from instrumentor_analysis.shared.files import read_bytes


class Prepared(Instrumented, frozen=True):
    """An instrumented training script; ``plan`` is what is changed and why."""

    plan: Plan

    def reasons(self) -> Mapping[Path, Sequence[Noted]]:
        """The reasons of the plan's edits, by file."""
        return {p: _reasons(p, data, self.plan) for p, data in self.originals.items()}

    @property
    def whole_patch(self) -> bytes:
        """The patch with the recorder's module, which stands outside of the copy."""
        recorder = module_text(self.plan.options).encode()
        return self.patch + unified_patch({Path(f"{MODULE}.py"): (None, recorder)})


class Explanation(Struct, frozen=True):
    """Where the loop is and what would be changed, or why the script is declined.

    Attributes:
        eligible: whether it would be instrumented.
        reasons: why not; empty when eligible.
        plan: the plan when eligible, else None.
    """

    eligible: bool
    reasons: tuple[Reason, ...]
    plan: Plan | None
    document: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The document `instrument-plan/1`; without a plan the same keys, null."""
        return dict(self.document)


def script_path(script: Path) -> Path:
    """Absolute path of a readable script, without ``..``; symbolic links stay.

    Raises:
        UsageError: it does not exist or is no file.
    """
    path = Path(script).expanduser()
    if not path.exists():
        names = str(script).split(".")
        if all(map(str.isidentifier, names)) and Path(*names).with_suffix(".py").is_file():
            hint = f"There is a module of that name: -m {script}"
        else:
            scripts = [each.name for each in path.parent.glob("*.py")]
            near = difflib.get_close_matches(path.name, scripts, 1)
            meant = Path(script).with_name(near[0]) if near else None
            hint = f"Did you mean {meant}?" if near else "Give the path of the script to measure."
        raise UsageError(f"{script}: no such file", hint)
    if path.is_dir():
        raise UsageError(
            f"{script}: a folder, not a script",
            f"Give the training script in it; instrument explain --summary {script} checks all of "
            "them.",
        )
    if path.suffix == ".ipynb":
        raise UsageError(
            f"{script}: a notebook, not a script",
            f"jupyter nbconvert --to script {script} writes one.",
        )
    if not path.is_file():
        raise UsageError(f"{script}: not a file", "Give the path of a training script (.py).")
    absolute = path.absolute()
    plain = Path(os.path.normpath(absolute))
    if plain.exists() and plain.samefile(absolute):
        return plain
    return absolute.parent.resolve() / path.name  # a `..` behind a link leads elsewhere


def module_path(name: str, cwd: Path) -> Path:
    """The file that `python -m name` runs from a folder: one of it, or of PYTHONPATH.

    Raises:
        UsageError: there is none.
    """
    for folder in (cwd, *python_path()):
        base = folder.joinpath(*name.split("."))
        for path in (base.with_name(f"{base.name}.py"), base / "__main__.py"):
            if path.is_file():
                return path
    raise UsageError(
        f"-m {name}: no such module in {cwd}",
        "Start from the folder that holds the package, as python -m does, or name it in "
        "PYTHONPATH.",
    )


def prepare(script: Path, options: Options, arguments: Sequence[str] = ()) -> Prepared:
    """Locate, plan, rewrite and prove; nothing is written.

    Raises:
        Declined, UsageError, ProofFailed: see the parts.
    """
    path, project, located, plan = _planned(script, options, arguments)
    originals = {source.path: source.data for source in located.program.sources.values()}
    variant = options.variant or Variant()
    for file in (*variant.modules, *(file for file, _ in variant.files)):
        originals.setdefault(file, _read(file))
    plan = _with_variant(plan, variant, originals)
    replacements = dict(variant.files)
    for file in plan.files:
        refuse_instrumented(file, originals[file])
        replacements[file] = instrument(originals[file], plan, file, rebinds=variant.rebinds)
    before = {p: originals[p] for p in replacements}
    return Prepared(path, project, before, replacements, plan)


def _planned(
    script: Path, options: Options, arguments: Sequence[str]
) -> tuple[Path, Project, Located, Plan]:
    """The script's path and project, its loop and its plan; only files of the project are edited.

    A loop in a package of PYTHONPATH that lies outside counts as one of an installed package.
    """
    path = script_path(script)
    refuse_instrumented(path, _read(path))
    project = find_project(path)
    # The user's PYTHONPATH is followed first, for what it tells of the objects in use.
    for roots in (project.import_roots, project.own_roots):
        located = locate_file(path, options, roots, arguments)
        plan = make_plan(located, options)
        if all(file.resolve().is_relative_to(project.root) for file in plan.files):
            break
    return path, project, located, plan


def _with_variant(plan: Plan, variant: Variant, originals: Mapping[Path, bytes]) -> Plan:
    """The plan with a variant's edits; modules that only those touch report their load as well.

    The variant's edits go first: at one place they belong to the script that is measured. Those
    inside of what the plan switches off (validation, checkpoints) would never run, and are left.
    """
    edits: list[Edit] = []
    for file in variant.modules:
        source = parse_source(file, originals[file])
        off = _spans(source, plan.edits_of(file))
        own = [edit for path, edit in variant.edits if path == file]
        edits += [replace(e, file=file) for e in own if not _inside(e.at, off)]
        if file not in plan.files:
            edits.append(replace(import_of(source, plan.names[0]), file=file))
    return replace(plan, edits=(*edits, *plan.edits)) if edits else plan


#: What an edit is, in the header of its hunk; one that `insert`s something beside what stays.
_LABELS = {
    RECORDER: "recorder",
    "entry": "next batch",
    "region": "timed region",
    "host_reads": "host read moved",
    "early_stop": "early stop",
    "ending": "end of the run",
    "validation": "validation skipped",
    "checkpoints": "saving skipped",
    "cache_clears": "cache clear skipped",
}
#: The same where it does not leave out what stays.
_TIMED = {"validation": "validation timed", "checkpoints": "saving timed"}


def _label(edit: Edit) -> str:
    """A few words for an edit; `explain` has the whole reason."""
    if edit.kind is not Kind.DISABLE and edit.pass_name in _TIMED:
        return _TIMED[edit.pass_name]
    return _LABELS.get(edit.pass_name, edit.reason)


def _reasons(path: Path, data: bytes, plan: Plan) -> list[Noted]:
    """The line at which each edit shows in the diff, and what it is; the recorder's come last."""
    edits = sorted(plan.edits_of(path), key=lambda edit: edit.kind is Kind.PRELUDE)
    statements = parse_source(path, data).by_position if edits else {}
    found: list[Noted] = []
    for edit in edits:
        at = edit.at or Statement(1, 0)
        if edit.at is not None and edit.kind in (Kind.INSERT_AFTER, Kind.PRELUDE):
            at = _end(statements[edit.at])
        places = [at] if edit.to is None else [at, _end(statements[edit.to])]
        found += [(place.line, _label(edit)) for place in places]
    return found


def _end(statement: ast.stmt) -> Statement:
    """Where a statement ends, which is known of all that was parsed."""
    return Statement(statement.end_lineno or 0, statement.end_col_offset or 0)


_Spans = list[tuple[Statement, Statement]]


def _spans(source: Source, edits: Sequence[Edit]) -> _Spans:
    """Start and end of the statements that a plan switches off or moves."""
    off = (e.at for e in edits if e.kind in (Kind.DISABLE, Kind.MOVE_AFTER) and e.at is not None)
    return [(at, _end(source.by_position[at])) for at in off]


def _inside(at: Statement | None, spans: _Spans) -> bool:
    return at is not None and any(start < at < end for start, end in spans)


def explain(
    script: Path | str, options: Options | None = None, arguments: Sequence[str] = ()
) -> Explanation:
    """Explain a script on disk; a declined one is an answer, not an error.

    Args:
        script: path of the entry script.
        options: as for rewriting.
        arguments: the script's own arguments (`--config x.yaml` is looked at).

    Raises:
        UsageError: the file does not exist, is already instrumented, or an option is wrong.
    """
    try:
        *_, plan = _planned(Path(script), options or Options(), arguments)
    except Declined as declined:
        return Explanation(False, declined.reasons, None, explain_declined(declined))
    return Explanation(True, (), plan, plan.to_json())


def plan(script: Path | str, options: Options | None = None, arguments: Sequence[str] = ()) -> Plan:
    """The ordered edits of a script on disk, each with its reason; nothing is run.

    Raises:
        Declined: the script cannot be instrumented correctly.
        UsageError: as :func:`explain`.
    """
    found = explain(script, options, arguments)
    if found.plan is None:
        raise Declined(*found.reasons)
    return found.plan


def _read(path: Path) -> bytes:
    try:
        return read_bytes(path)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error


def config_of(script: Path, arguments: Sequence[str], cwd: Path) -> Mapping[str, object]:
    """The YAML that the script will read, as far as it shows; empty without one."""
    try:
        source = parse(script, read_bytes(script))
    except SyntaxError:
        return {}
    found = config_path(source, arguments)
    return read_config(cwd / found[0]) if found else {}
