"""What another user of the machine can do: a second real user, where this one may become it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

NOBODY = 65534
TWO_USERS = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to act as a second user")


def as_another_user(act: Callable[[], object]) -> None:
    """Do something as the user nobody, in a child process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            act()
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0


def without_rights(act: Callable[[], object]) -> None:
    """Do something as a user whom modes count for, who is not root."""
    if os.geteuid() == 0:
        as_another_user(act)
    else:
        act()


@pytest.fixture
def shared_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder like /tmp, which every user may write to; it is TMPDIR."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    folder.chmod(0o1777)
    monkeypatch.setenv("TMPDIR", str(folder))
    yield folder
    shutil.rmtree(folder)
