"""`instrument skill`: how a coding agent uses this tool, as Markdown."""

from __future__ import annotations

from pathlib import Path

from instrumentor.cli.signature import Verb
from instrumentor.shared import console
from instrumentor_analysis.shared.files import read_text


@Verb
def skill() -> None:
    """Print instructions for coding agents, as Markdown."""
    text = read_text(Path(__file__).parent.with_name("SKILL.md"))
    console.raw(text)
