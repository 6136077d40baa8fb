"""The proof that a run left the user's files alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from instrumentor.shared.project import find_project
from instrumentor.workspace.originals_proof import Originals


def taken(repo: Path, *names: str) -> Originals:
    return Originals.take(find_project(repo / "train.py"), [repo / name for name in names])


def test_nothing_changed_nothing_to_say(git_repo) -> None:
    repo = git_repo({"train.py": "a"})
    assert taken(repo, "train.py").verify() == ()


def test_clean_files_are_known_by_their_blob(git_repo) -> None:
    repo = git_repo({"train.py": "a", "sub/ü 1.py": "b", "dirty.py": "c", "?.py": "a", "1.py": ""})
    (repo / "dirty.py").write_text("d")
    (repo / "untracked.py").write_text("e")
    originals = taken(repo, "train.py", "sub/ü 1.py", "dirty.py", "untracked.py", "?.py")
    blobs = {p.path.name: p.blob for p in originals.files}
    assert blobs["train.py"] == "2e65efe2a145dda7ee51d1741299f848e5bf752e"
    assert blobs["ü 1.py"] == "63d8dbd40c23542e740659a7168a0ce3138ea748"
    assert blobs["?.py"] == blobs["train.py"]  # a name, no pattern
    assert blobs["dirty.py"] is None and blobs["untracked.py"] is None


def test_a_file_that_git_converts_is_clean(git_repo) -> None:
    repo = git_repo({"train.py": b"a = 1\r\n", ".gitattributes": "*.py text eol=crlf\n"})
    (print_,) = taken(repo, "train.py").files
    assert print_.blob is not None


@pytest.mark.parametrize("dirty", [True, False])
def test_other_bytes_are_found_even_with_the_old_time(git_repo, dirty: bool) -> None:
    repo = git_repo({"train.py": "a"})
    if dirty:
        (repo / "train.py").write_text("b")
    originals = taken(repo, "train.py")
    facts = (repo / "train.py").stat()
    (repo / "train.py").write_text("c")
    os.utime(repo / "train.py", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    known = "its uncommitted content" if dirty else "git's blob 2e65efe2a145"
    assert originals.verify() == (f"train.py differs from {known}, which it held before the run",)


def test_mode_time_and_absence_are_found(git_repo) -> None:
    repo = git_repo({"train.py": "a", "gone.py": "", "linked.py": ""})
    os.utime(repo / "train.py", ns=(1, 1))
    originals = taken(repo, "train.py", "gone.py", "linked.py")
    (repo / "train.py").chmod(0o600)
    os.utime(repo / "train.py", ns=(2, 2))
    (repo / "gone.py").unlink()
    (repo / "linked.py").unlink()
    (repo / "linked.py").symlink_to("train.py")
    assert originals.verify() == (
        "train.py: mode changed from 0644 to 0600",
        "train.py: mtime changed from 1 to 2 ns",
        "gone.py is gone",
        "linked.py is no longer a regular file",
    )


def test_a_project_without_git_is_proved_too(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("a")
    originals = taken(tmp_path, "train.py")
    (tmp_path / "train.py").write_text("b")
    assert any("its uncommitted content" in text for text in originals.verify())
