"""A text to an instrumented one: what is refused, what is proven, and the patch."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from instrumentor import UsageError, rewrite
from instrumentor.plan import Plan
from instrumentor.rewrite import WIDEST, instrument, unified_patch
from instrumentor.shared.edits import Edit, Kind, Statement
from instrumentor.shared.errors import ProofFailed
from tests.end_to_end.small import script

TEXT = script()


def planned(*edits: Edit) -> Plan:
    """A plan of other edits."""
    return replace(rewrite(TEXT).plan, edits=edits)


def test_a_text_is_taken_as_utf_8() -> None:
    text = TEXT + "# café\n"
    done = rewrite(text, filename="train.py")
    assert done == rewrite(text.encode(), filename="train.py")
    assert done.diff.startswith("--- a/train.py\n+++ b/train.py\n@@ ")
    assert done.plan.edits and b"_instrument" in done.code


def test_an_instrumented_text_is_refused_with_its_name() -> None:
    with pytest.raises(UsageError, match=r"^train\.py: already instrumented"):
        rewrite(rewrite(TEXT).code, filename="train.py")


def test_what_is_written_has_been_proven() -> None:
    data, path = b"a = 1\nprint(a)\n", Path()
    lost = planned(Edit(Kind.DISABLE, Statement(1, 0)))
    with pytest.raises(ProofFailed, match=r"^\.: proof 'undefined' failed at line 2: 'a'"):
        instrument(data, lost, path)
    taken = planned(Edit(Kind.PRELUDE, None, "a = 2"))
    with pytest.raises(ProofFailed, match=r"proof 'collisions' failed .*'a'"):
        instrument(data, taken, path)
    assert instrument(data, taken, path, rebinds=["a"]).endswith(data)


# The patch

ROOT = Path("/repository")


def test_a_patch_has_the_bytes_of_both_files() -> None:
    files = {
        ROOT / "sub/a b.py": (b"\xe9\rx\r\ny", b"\xe9\rx\r\nz\n"),
        Path("/elsewhere/b.py"): (b"", b"x"),
        ROOT / "same.py": (b"x\n", b"x\n"),
        ROOT / "c.py": (None, b"x\n"),
    }
    assert unified_patch(files, ROOT) == (
        b"--- a/sub/a b.py\t\n+++ b/sub/a b.py\t\n@@ -1,2 +1,2 @@\n"
        b" \xe9\rx\r\n-y\n\\ No newline at end of file\n+z\n"
        b"--- a/elsewhere/b.py\n+++ b/elsewhere/b.py\n@@ -0,0 +1 @@\n"
        b"+x\n\\ No newline at end of file\n"
        b"--- /dev/null\n+++ b/c.py\n@@ -0,0 +1 @@\n+x\n"
    )
    assert unified_patch({ROOT / "c.py": (None, b"x\n")}).startswith(
        b"--- /dev/null\n+++ b/repository/c.py\n"
    )


def test_a_name_ends_no_line_of_a_patch(git_repo) -> None:
    """Else a file's name could be a change of another one, and no patch of its own applied."""
    planted = "a\n--- a/b.py\n+++ b/b.py\n@@ -1 +1 @@\n-b\n+x.py"
    names = [planted, 'tab\tand "quotes\\" \x7f\udcff.py']
    repo = git_repo({**dict.fromkeys(names, "old\n"), "b.py": "b\n"})
    patch = unified_patch({repo / name: (b"old\n", b"new\n") for name in names}, repo)
    subprocess.run(["git", "apply"], cwd=repo, input=patch, check=True)
    assert [(repo / name).read_text() for name in (*names, "b.py")] == ["new\n", "new\n", "b\n"]


def test_a_hunk_says_why_its_own_lines_change_each_reason_once() -> None:
    old = [b"%d\n" % number for number in range(1, 31)]
    new = [*old[:9], b"nine\n", *old[9:28], b"twenty-eight\n", *old[28:]]
    notes = [(6, "ahead"), (7, "first"), (9, "second"), (12, "first"), (13, "behind")]
    notes += [(30, "last"), (31, "out")]
    path = Path("a.py")
    patch = unified_patch({path: (b"".join(old), b"".join(new))}, None, {path: notes})
    headers = [line for line in patch.split(b"\n") if line.startswith(b"@@")]
    assert headers == [b"@@ -7,6 +7,7 @@ first, second", b"@@ -26,5 +27,6 @@ last"]


def test_the_reasons_of_a_file_of_one_line() -> None:
    path, notes = Path("a.py"), [(1, "here"), (2, "behind")]
    patch = unified_patch({path: (b"a\n", b"b\n")}, None, {path: notes})
    assert b"\n@@ -1 +1 @@ here\n" in patch


def test_many_reasons_are_cut_at_a_word() -> None:
    path = Path("a.py")
    notes = {path: [(1, f"reason {number}") for number in range(99)]}
    header = unified_patch({path: (b"a\n", b"b\n")}, None, notes).split(b"\n")[2]
    said = header.removeprefix(b"@@ -1 +1 @@ ")
    assert len(said) <= WIDEST < len(said) + len(b" reason 99,") and said.endswith(b" ...")
