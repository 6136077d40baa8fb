"""Small kernel scripts for the tests, and how to read them."""

from __future__ import annotations

import textwrap
from pathlib import Path

from instrumentor.kernels.find import find_in
from instrumentor.kernels.model import Found
from instrumentor.kernels.options import Choice
from instrumentor.kernels.plan import KernelPlan, plan_for
from instrumentor.read.program import Program
from instrumentor.read.syntax import parse
from instrumentor.shared.project import Project

ROOT = Path(__file__).resolve().parent.parent.parent
FIXTURES = ROOT / "fixtures" / "kernels"
STANDIN = ROOT / "tests" / "standins" / "ttl"

KERNEL = """\
import ttl

@ttl.kernel(grid=(1, 1))
def k(a, out):
    pass

"""


def found(source: str, path: Path = Path("/x/script.py")) -> Found:
    """What a script's text holds."""
    return find_in(Program.single(parse(path, textwrap.dedent(source).encode())))


def planned(source: str, kernel: str = "", call: int | None = None) -> KernelPlan:
    """The plan for a script's text."""
    path = Path("/x/script.py")
    project = Project(path.parent, False, (path.parent,))
    return plan_for(project, found(source, path), Choice(kernel, call))
