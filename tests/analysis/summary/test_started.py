"""What a run started, as it was typed."""

from __future__ import annotations

from typing import Any

import pytest

from instrumentor_analysis.summary.started import started


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ({"command": ["/v/bin/python3", "train.py", "--lr", "1"]}, ["train.py", "--lr", "1"]),
        ({"command": ["python", "-m", "pkg.train"]}, ["-m", "pkg.train"]),
        ({"command": ["torchrun", "train.py"], "script": "train.py"}, []),
        ({"command": ["python", "-m", "tracy", "-p", "t.py"], "script": "/t.py"}, ["/t.py"]),
        ({"command": ["python", "-m", "tracy", "-p", "t.py"]}, []),
        ({"command": ["python", "/copy/t.py", "1"], "own_script": "/own/t.py"}, ["/own/t.py", "1"]),
        ({"command": ["python", "-m", "pkg.t"], "own_script": "/own/pkg/t.py"}, ["-m", "pkg.t"]),
        ({}, []),
    ],
)
def test_script_and_arguments(run: dict[str, Any], words: list[str]) -> None:
    assert started(run) == words
