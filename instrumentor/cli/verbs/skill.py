"""`instrument skill`: how a coding agent uses this tool, as Markdown."""

from __future__ import annotations

from pathlib import Path

from instrumentor.cli.signature import Verb
from instrumentor.shared import console


@Verb
def skill() -> None:
    """Print instructions for coding agents, as Markdown."""
    text = Path(__file__).parent.with_name("SKILL.md").read_text(encoding="utf-8")
    console.raw(text)
