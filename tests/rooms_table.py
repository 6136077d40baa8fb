"""The table of rooms in docs/architecture.md, made from the docstrings of the packages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.conftest import ROOT

_LAYERS = re.compile(r"^layers = \[\n(.*?)^\]", re.MULTILINE | re.DOTALL)
_ANALYSIS = ["load", "ops", "clock", "summary", "compare", "kernels", "reports", "shared"]


def text() -> str:
    """Both packages, folder by folder: the floors of `instrumentor` from the command line down."""
    floors = re.findall(r"\w+", _LAYERS.findall((ROOT / "pyproject.toml").read_text("utf-8"))[0])
    rows = ["| folder | what it is | what goes in, what comes out |", "|---|---|---|"]
    for root, names in (("instrumentor", floors), ("analysis/instrumentor_analysis", _ANALYSIS)):
        for name in names:
            folder = ROOT / root / name
            inner = sorted(p.parent for p in folder.rglob("__init__.py") if p.parent != folder)
            rows += [_row(each, ROOT / root) for each in (folder, *inner)]
    return "\n".join(rows)


def _row(folder: Path, root: Path) -> str:
    what, flow = described(folder)
    within = root.name if root.name == "instrumentor" else "analysis/" + root.name
    return f"| `{within}/{folder.relative_to(root)}/` | {what} | {flow} |"


def described(folder: Path) -> tuple[str, str]:
    """The first sentence of a package's docstring, and its paragraph "In: ...; out: ..."."""
    source = (folder / "__init__.py").read_text(encoding="utf-8")
    doc = ast.get_docstring(ast.parse(source)) or ""
    first, *others = [" ".join(part.split()) for part in doc.split("\n\n")]
    flows = [part for part in others if re.match(r"In: .+; out: .+", part)]
    assert flows, f"{folder}/__init__.py: its docstring lacks 'In: ...; out: ...'"
    return first.replace("|", r"\|"), flows[0].replace("|", r"\|")
