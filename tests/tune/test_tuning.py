"""What a journal keeps of a tuning comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path

from instrumentor.run.options import RunOptions
from instrumentor.shared.options import Options
from instrumentor.tune import tuning


def test_options_survive_json() -> None:
    options = Options(steps=13, warmup=3, region=("a.py", 1, 9), only=("region",))
    told = json.loads(json.dumps(tuning._rewrite_json(options)))
    assert Options(**tuning._tuples(told)) == options


def test_where_trials_run_survives_json(tmp_path: Path) -> None:
    run = RunOptions(python="python3", tt_xla=tmp_path, link=(Path("data"),))
    assert tuning._run_of(json.loads(json.dumps(tuning._run_json(run)))) == run
    assert tuning._run_of({}) == RunOptions()
