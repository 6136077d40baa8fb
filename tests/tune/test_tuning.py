"""What a journal keeps of a tuning comes back as it was."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from instrumentor.run.options import RunOptions
from instrumentor.shared.errors import UsageError
from instrumentor.shared.options import Options
from instrumentor.tune import tuning


def test_options_survive_json() -> None:
    options = Options(steps=13, warmup=3, region=("a.py", 1, 9), only=("region",))
    told = json.loads(json.dumps(tuning._rewrite_json(options)))
    assert tuning._rewrite_of(Path(), told) == options


def test_where_trials_run_survives_json(tmp_path: Path) -> None:
    run = RunOptions(python="python3", tt_xla=tmp_path, link=(Path("data"),), keep_copy=False)
    assert tuning._run_of(tuning._Where(**json.loads(json.dumps(tuning._run_json(run))))) == run
    assert tuning._run_of(tuning._Where()) == RunOptions()


HEADER: dict[str, Any] = {
    "event": "tune", "schema": "instrument-tune-journal/2", "script": "train.py", "arguments": [],
    "cwd": "/", "digest": "x", "rewrite": {}, "run": {}, "settings": [], "batch_sizes": [],
    "strategy": "grid", "loss_tolerance": 0.1,
}  # fmt: skip


@pytest.mark.parametrize(
    "wrong",
    [
        *({each: None} for each in HEADER if each not in ("event", "schema")),
        *({"cwd": 5}, {"script": []}, {"arguments": 5}, {"arguments": [1]}, {"run": 5}),
        *({"run": {"link": "data"}}, {"run": {"python": 1}}, {"settings": "loss"}),
        *({"rewrite": []}, {"rewrite": {"nosuch": 1}}, {"rewrite": {"variant": {}}}),
        *({"rewrite": {"steps": "x"}}, {"rewrite": {"region": [1, 2]}}, {"batch_sizes": [1.5]}),
    ],
)
def test_a_journal_whose_header_is_damaged_is_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    """A folder to resume may have come from anybody."""
    for header in ({**HEADER, **wrong}, {k: v for k, v in HEADER.items() if k not in wrong}):
        if len(header) == len(HEADER) or wrong == dict.fromkeys(wrong):
            (tmp_path / "journal.jsonl").write_text(json.dumps(header) + "\n")
            with pytest.raises(UsageError, match=r"journal\.jsonl is damaged: "):
                tuning.resume(tmp_path)


@pytest.mark.parametrize("wrong", [{"rewrite": {"steps": -1}}, {"settings": ["nosuch"]}])
def test_a_journal_with_values_out_of_range_is_refused(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    (tmp_path / "journal.jsonl").write_text(json.dumps({**HEADER, **wrong}) + "\n")
    with pytest.raises(UsageError):
        tuning.resume(tmp_path)
