"""What the recorder writes beside its samples."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from instrumentor.runtime.recorder.recorder import Recorder
from tests.runtime.recorder.tensors import events

ALL = ("repeats", "phases", "same_batch", "modules", "programs", "collectives")


def test_what_stays_ahead_of_the_first_sample_is_named_with_its_time(
    recorder: Recorder, tmp_path: Path
) -> None:
    recorder.aside("validation at train.py:14")
    recorder.aside()
    recorder.aside()  # nothing is open
    (text,) = (e["text"] for e in events(tmp_path, "warning"))
    assert re.fullmatch(
        r"validation at train\.py:14 stays and took \d+\.\d s before the first sample", text
    )


def test_an_iteration_that_does_not_train_begins_nothing(
    untrained: None, recorder: Recorder, tmp_path: Path
) -> None:
    posts: list[str] = []
    recorder.signpost = posts.append
    for training in (False, True, False, False, True):
        recorder.begin(when=training)
        if training:
            recorder.end()
    assert len(events(tmp_path, "sample")) == 2 and not events(tmp_path, "cancelled")
    assert [post.rsplit("_", 1)[1] for post in posts] == ["start", "end", "start", "end"]


def test_a_sample_has_the_cpu_time_of_its_region(
    untrained: None, recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = iter((5.0, 5.25, 9.0, 9.5))
    monkeypatch.setattr("time.process_time", lambda: next(asked))
    for _ in range(2):
        recorder.begin()
        recorder.end()
    assert [each["cpu_ms"] for each in events(tmp_path, "sample")] == [250.0, 500.0]


def test_what_a_script_puts_in_place_of_json_dumps_writes_no_record(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("json.dumps", lambda *_: '{"event": "forged"}')
    recorder.records.write("memory", bytes=1)
    (line,) = (tmp_path / "record.jsonl").read_text().splitlines()
    assert json.loads(line)["event"] == "memory"


@pytest.mark.parametrize(
    ("other_cpus", "phases", "more", "profiled"),
    [
        (None, None, ALL, True),
        (1.7, None, ("repeats",), False),
        (1.7, 0, ("repeats",), False),
        (1.7, 12, ("repeats", "phases"), False),  # from the others nothing would be predicted
    ],
)
def test_a_busy_machine_ends_the_extra_steps_that_nobody_asked_for(
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
    other_cpus: float | None,
    phases: int | None,
    more: tuple[str, ...],
    profiled: bool,
) -> None:
    recorder.phases.wanted = phases
    monkeypatch.setattr(recorder.sampling, "enough", lambda *_: True)
    recorder.sampling.other_cpus = other_cpus
    recorder.profiled.hook, recorder.profiled.taken = "hook.py", 1
    assert recorder.sampled() is not profiled
    assert tuple(each.name for each in recorder.coming) == more
    assert recorder.profiled.due is profiled


@pytest.mark.parametrize(
    ("label", "updates_behind", "profiled_at"),
    [
        ("fwd+bwd", 1, 2),  # the second sample has the optimizer's memory beside its own
        ("fwd+bwd", 4, 5),
        ("fwd+bwd", 64, 10),
        ("inference", 64, 1),
    ],
)
def test_the_first_profiled_step_follows_a_sample_behind_an_update(
    untrained: None, recorder: Recorder, label: str, updates_behind: int, profiled_at: int
) -> None:
    """The peak of memory is read ahead of it."""
    recorder.sampling.steps, recorder.profiled.hook = 99, "hook.py"
    for taken in range(1, profiled_at + 1):
        recorder.begin()
        recorder.end(label=label)
        if taken % updates_behind == 0:
            recorder.marks.stepped.append(1)
        recorder.profiled.hook = "hook.py"
        assert recorder.profiles() is (taken == profiled_at)


def test_what_others_did_beside_profiled_steps_behind_the_samples_is_told(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder.sampling, "enough", lambda *_: True)
    monkeypatch.setattr(recorder.beside, "used_s", lambda: 1.5)
    recorder.profiled.hook = "hook.py"
    for taken in range(1, 6):
        recorder.profiled.taken = taken
        assert recorder.sampled() is (taken == 5)
    assert recorder.sampled()
    (told,) = events(tmp_path, "beside")
    assert (told["of"], told["others_s"]) == ("profiled", 1.5) and told["seconds"] > 0


def test_what_others_did_beside_extra_steps_is_told_of_each_kind(
    recorder: Recorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.coming = [
        SimpleNamespace(
            name=name,
            due=lambda *_: True,
            start=lambda: None,
            stop=lambda: None,
            spent_s=lambda: 2.5,
        )
        for name in ("phases", "modules")
    ]
    used = iter((1.5, None))
    monkeypatch.setattr(recorder.beside, "used_s", lambda: next(used))
    for _ in range(3):
        recorder.go_on()
    (told,) = events(tmp_path, "beside")  # nothing where the system does not say
    assert (told["of"], told["others_s"]) == ("phases", 1.5)
    assert told["cpus"] >= 1 and told["seconds"] == 2.5
    recorder.leave()
    assert len(events(tmp_path, "beside")) == 1
