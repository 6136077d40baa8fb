"""What a trial is told survives its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

from instrumentor.options import Options
from instrumentor.tune import spec as files


def test_options_survive_json() -> None:
    options = Options(steps=13, warmup=3, region=("a.py", 1, 9), only=("region",))
    told = json.loads(json.dumps(files.options_to_json(options)))
    assert files.options_from_json(told) == options


def test_digest_sees_any_change(tmp_path: Path) -> None:
    one = {tmp_path / "a": b"1", tmp_path / "b": b"2"}
    assert files.digest(one) == files.digest(dict(reversed(one.items())))
    assert files.digest(one) != files.digest({**one, tmp_path / "b": b"3"})


def test_whether_a_trial_still_runs(tmp_path: Path) -> None:
    assert not files.runs(tmp_path)
    files.write_process(tmp_path)  # this very process
    assert files.runs(tmp_path)
    text = (tmp_path / files.PROCESS).read_text().replace(str(os.getpid()), "1")
    (tmp_path / files.PROCESS).write_text(text)  # a number that another process has now
    assert not files.runs(tmp_path)
