"""Measure one training step of a PyTorch script, without touching it.

    from instrumentor import explain, rewrite, run

    explain("train.py").to_json()              # where the loop is, or why it is declined
    rewrite(source).diff                       # one module's text, instrumented
    run("train.py", ["--config", "x.yaml"])    # the one-shot; returns folder and summary

Results are frozen dataclasses; nothing is printed and the process is never ended. Errors are
subclasses of :class:`InstrumentError` and carry a message, a hint and an exit code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from instrumentor.errors import (
        InstrumentError,
        Interrupted,
        NotReady,
        ProofFailed,
        RunFailed,
        UsageError,
    )
    from instrumentor.locate.model import Declined, Reason
    from instrumentor.options import Options
    from instrumentor.plan import Plan
    from instrumentor.prepare import Explanation, explain
    from instrumentor.rewrite import Rewritten, rewrite
    from instrumentor.runner import RunOptions, RunResult, run

_HOMES = {
    "Declined": "locate.model",
    "Explanation": "prepare",
    "InstrumentError": "errors",
    "Interrupted": "errors",
    "NotReady": "errors",
    "Options": "options",
    "Plan": "plan",
    "ProofFailed": "errors",
    "Reason": "locate.model",
    "Rewritten": "rewrite",
    "RunFailed": "errors",
    "RunOptions": "runner",
    "RunResult": "runner",
    "UsageError": "errors",
    "explain": "prepare",
    "rewrite": "rewrite",
    "run": "runner",
}

__all__ = [
    "Declined",
    "Explanation",
    "InstrumentError",
    "Interrupted",
    "NotReady",
    "Options",
    "Plan",
    "ProofFailed",
    "Reason",
    "Rewritten",
    "RunFailed",
    "RunOptions",
    "RunResult",
    "UsageError",
    "explain",
    "rewrite",
    "run",
]


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used: `import instrumentor` costs nothing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)
