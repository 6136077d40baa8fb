"""From marked text to plain text: the same meaning, in every place an edit can be."""

from __future__ import annotations

import pytest

from instrumentor.edits import Edit, Kind, Statement
from instrumentor.engine import apply_edits
from instrumentor.errors import ProofFailed
from instrumentor.marks import MARKER
from instrumentor.tune.accept import accept

SOURCE = '''\
"""Doc."""
import a
if a: x = 1; y = 2
def f():
    return (1,
            2)  # pair
'''


@pytest.mark.parametrize(
    ("edits", "expected"),
    [
        ([Edit(Kind.PRELUDE, None, "import os\n\nos.x = 1")],
         SOURCE.replace("import a\n", "import os\n\nos.x = 1\nimport a\n", 1)),
        ([Edit(Kind.DISABLE, Statement(2, 0), "import b  # new")],
         SOURCE.replace("import a\n", "import b  # new\n")),
        ([Edit(Kind.DISABLE, Statement(3, 6), "x = 7")],
         SOURCE.replace("if a: x = 1; y = 2\n", "if a:\n    x = 7\n    y = 2\n")),
        ([Edit(Kind.INSERT_BEFORE, Statement(5, 4), "g(\n    1,\n)")],
         SOURCE.replace("    return", "    g(\n        1,\n    )\n    return")),
        ([Edit(Kind.DISABLE, Statement(5, 4))],
         SOURCE.replace("    return (1,\n            2)  # pair\n", "    pass\n")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_same_meaning_no_marks(edits: list[Edit], expected: str, newline: str) -> None:
    source = SOURCE.replace("\n", newline).encode()
    assert accept(apply_edits(source, edits)).decode() == expected.replace("\n", newline)


def test_a_file_without_edits_is_itself() -> None:
    assert accept(SOURCE.encode()) == SOURCE.encode()


def test_a_mark_inside_a_string_is_part_of_its_meaning() -> None:
    with pytest.raises(ProofFailed, match="the patch would not mean what was measured"):
        accept(f'text = """\nlast {MARKER}\n"""\n'.encode())
