"""Reading what grows: whole lines, a log without end, records that a script may have forged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from instrumentor.run.process import Tail, excerpt, record_of
from instrumentor.shared.errors import RunFailed


def test_whole_lines_are_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "file"
    tail = Tail(path)
    assert list(tail.lines()) == []
    path.write_bytes(b"one\ntw")
    assert list(tail.lines()) == ["one"]
    with path.open("ab") as stream:
        stream.write(b"o\r\nrest \xff")
    assert list(tail.lines()) == ["two"]
    assert list(tail.lines(final=True)) == ["rest \ufffd"]


def test_a_log_without_end_is_read_in_parts(tmp_path: Path) -> None:
    """A script that prints faster than it is read must not keep the tool from a Ctrl-C."""
    path = tmp_path / "log"
    line = b"x" * 1023 + b"\n"
    path.write_bytes(line * 40_000 + b"y" * (3 << 20))
    tail = Tail(path)
    first = list(tail.lines())
    assert first == ["x" * 1023] * (16 << 10)
    rest = list(tail.lines(final=True))
    assert rest[: 40_000 - (16 << 10)] == ["x" * 1023] * (40_000 - (16 << 10))
    pieces = rest[40_000 - (16 << 10) :]
    assert sum(map(len, pieces)) == 3 << 20 and max(map(len, pieces)) <= 2 << 20
    assert list(tail.lines(final=True)) == []


def test_of_a_log_that_was_blown_up_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as stream:
        stream.truncate(1 << 33)
        stream.seek(0, 2)
        stream.write(b"\nlast\n")
    lines = list(Tail(path).lines(final=True))
    assert lines[-1] == "last" and sum(map(len, lines)) <= 64 << 20


def test_a_record_longer_than_any_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(b"one\ntwo\n")
    assert list(Tail(path, most_bytes=8).lines()) == ["one", "two"]
    for final in (False, True):
        with pytest.raises(RunFailed, match="record has 8 bytes, more than 7"):
            list(Tail(path, most_bytes=7).lines(final=final))


def test_a_record_of_more_lines_than_any_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "record"
    path.write_bytes(b"one\ntwo\n")
    tail = Tail(path, most_lines=3)
    assert list(tail.lines()) == ["one", "two"]
    with path.open("ab") as stream:
        stream.write(b"\n\nnot in a hurry")
    for final in (False, True):
        with pytest.raises(RunFailed, match="record has more than 3 lines"):
            list(tail.lines(final=final))
        tail = Tail(path, most_lines=3)


def test_of_a_long_log_beginning_and_end_are_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "log"
    assert excerpt(path) == ""
    path.write_bytes(b"short \xff\n")
    assert excerpt(path) == "short \ufffd\n"
    whole = b"a" * (4 << 20) + b"m" * 7 + b"z" * (16 << 20)
    path.write_bytes(whole)
    assert excerpt(path) == whole.replace(b"m" * 7, b"\n[7 bytes left out]\n").decode()
    path.write_bytes(whole[:-7])
    assert excerpt(path) == whole[:-7].decode()


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "sample", "kind": "steady", "ms": 1.0}',
        '{"event": "sample", "label": 1, "kind": "steady", "ms": 1.0}',
        '{"event": "sample", "label": "a", "kind": "steady", "ms": "fast"}',
        '{"event": "memory"}', '{"event": "memory", "bytes": "all"}', '{"event": "witness"}',
        '{"event": "witness", "status": "failed", "verified": [], "unverified": {}, '
        '"problems": [], "notes": [], "parameters": null}',
        '{"event": "witness", "status": "verified", "verified": [], "unverified": {}, '
        '"problems": [], "notes": [], "parameters": null, "undifferentiated": 5}',
        '{"event": "sample", "label": "a", "kind": "steady", "ms": 1, "device": []}',
        '{"event": "sample", "label": "a", "kind": "steady", "ms": 1, "loss": "low"}',
        '{"event": "memory", "bytes": NaN}', '{"event": "cause", "kind": "fallback"}',
        '{"event": "cause", "kind": "a", "what": "b", "places": [5], "count": 1, "ms": 1}',
        '{"event": "observed", "loop": null, "users": null, "forward": [], "backward": [], '
        '"step": [], "chains": {}, "parameters": {"trainable": 1}}',
        '{"event": "observed", "loop": null, "users": null, "forward": [], "backward": [], '
        '"step": [], "chains": {}, "parameters": {}}',
        *(
            json.dumps({
                **{"event": "observed", "loop": None, "users": None, "parameters": {}},
                **{"forward": [], "backward": [], "step": [], "in_turns": False, "chains": chains},
            })
            for chains in (
                {"elsewhere": []},
                {"step": [[]] * 1001},
                {"step": [[["train.py", 1, "train"]] * 61]},
            )
        ),
        '{"event": "observed", "loop": 1}', '{"event": "sample", "label": [], "ms": 1}',
        '{"event": "warning"}', '{"event": "profiled"}', "[1]", '{"event"', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_a_script_writes_into_the_record_is_no_sample(line: str) -> None:
    assert record_of(line) is None
    whole = {"event": "sample", "label": "a", "kind": "steady", "ms": 1, "more": 2}
    assert record_of(json.dumps(whole)) == whole
    assert record_of('{"event": ["odd"]}') == {"event": ["odd"]}


@pytest.mark.parametrize("loss", [0.5, None, "nan", "inf", "-inf"])
def test_a_sample_counts_whatever_became_of_its_loss(loss: object) -> None:
    """A trial whose loss is no number any more is told of as such, not as one without samples."""
    whole = {"event": "sample", "label": "a", "kind": "steady", "ms": 1, "loss": loss}
    assert record_of(json.dumps(whole)) == whole
