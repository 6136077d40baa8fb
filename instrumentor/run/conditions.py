"""Under what a training script was measured: the part of run.json that :mod:`.training` adds to."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instrumentor.machine.load import computes_bfloat16, cpu_model
from instrumentor.rewrite.prepare import Prepared, config_of
from instrumentor.run.batch_size import batch_facts
from instrumentor.shared.about import version
from instrumentor.workspace import git

if TYPE_CHECKING:
    from instrumentor.machine.environment import Machine
    from instrumentor.shared.options import Options


def conditions(
    prepared: Prepared,
    machine: Machine,
    arguments: Sequence[str],
    cwd: Path,
    record: Path,
    batch_dim: int | None,
) -> dict[str, Any]:
    """Under what a training script was measured.

    Args:
        record: the run's timings, which tell the shape of a batch; they may be missing.
        batch_dim: see :class:`instrumentor.run.options.RunOptions`.
    """
    root, plan = prepared.project.root, prepared.plan
    commit, dirty = git.state(root) if prepared.project.git else (None, None)
    loop = plan.explanation["loop"]
    # Peak FLOP/s depend on it, and a run without device ops does not show it otherwise.
    fidelity = config_of(prepared.script, arguments, cwd).get("math_fidelity")
    return {
        "scope": plan.label,
        "accumulation": plan.explanation.get("accumulation"),
        "loop_fetches": plan.fetches,
        "steps": plan.options.steps,
        "warmup": plan.options.warmup,
        "time_budget_s": plan.options.budget_s,
        **batch_facts(prepared.script, arguments, cwd, record, batch_dim),
        "python_version": machine.python_version,
        "torch_version": machine.version_of("torch"),
        "host": platform.node(),
        "platform": platform.platform(),
        "git_commit": commit,
        "git_dirty": dirty,
        "git_parent": commit is not None and git.has_parent(root),
        "loop": {
            "file": loop["file"],
            "line": loop["line"],
            "found_by": plan.explanation["found_by"],
        },
        "source_hashes": _source_hashes(prepared),
        "environment": {
            **_environment(machine),
            **({"math_fidelity": fidelity} if isinstance(fidelity, str) else {}),
        },
    }


def chosen(options: Options) -> list[str]:
    """The options that chose what is measured, as they are typed; another verb takes them too."""
    words: list[str] = []
    if options.loop is not None:
        file, line = options.loop
        words += ["--loop", f"{file}:{line}" if file else str(line)]
    if options.region is not None:
        file, first, last = options.region
        words += ["--region", f"{file}:{first}-{last}" if file else f"{first}-{last}"]
    for name in ("scope", "mode"):
        asked = getattr(options, name)
        words += [] if asked == "auto" else [f"--{name}", asked]
    return [*words, *(["--keep-validation"] if options.keep_validation else [])]


def _source_hashes(prepared: Prepared) -> dict[str, str]:
    """sha256 of the files as they were before their instrumentation, by the names of the diff."""
    root = prepared.project.root
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(data).hexdigest()
        for path, data in prepared.originals.items()
        if path.is_relative_to(root)
    }


def _environment(machine: Machine) -> dict[str, Any]:
    return {
        "packages": {name: package.version for name, package in sorted(machine.packages.items())},
        "devices": [str(d) for d in machine.devices],
        "simulator": str(machine.simulator) if machine.simulator else None,
        "tt_xla": str(machine.tt_xla) if machine.tt_xla else None,
        "cpu_count": os.cpu_count(),
        "cpu_model": cpu_model(),
        "cpu_bfloat16": computes_bfloat16(),
        "instrumentor": version(),
    }
