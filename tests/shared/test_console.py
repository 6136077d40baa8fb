"""Every word on the terminal: colours, errors, diffs, the narration of a run, with a fake clock."""

from __future__ import annotations

import io
import json
import re
import sys
import threading
from pathlib import Path

import pytest

from instrumentor.shared import console
from instrumentor.shared.errors import NotReady
from tests.waiting import HANG_S, wait_for


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("env", "terminal", "expected"),
    [
        ({}, False, False),
        ({}, True, True),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "dumb"}, True, False),
    ],
)
def test_colour(
    env: dict[str, str], terminal: bool, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    stream = Terminal() if terminal else io.StringIO()
    assert console.colored(stream) is expected
    painted = "\x1b[31mred\x1b[0m" if expected else "red"
    assert console.paint("red", "red", stream) == painted


def test_results_and_words_go_different_ways(capsys: pytest.CaptureFixture[str]) -> None:
    console.out("result")
    console.out_json({"a": [1, None]})
    console.say("word")
    console.warn("careful")
    console.fail(NotReady("no device", "Plug one in."))
    console.fail(NotReady("no more"))
    out, err = capsys.readouterr()
    first, rest = out.split("\n", 1)
    assert (first, json.loads(rest)) == ("result", {"a": [1, None]})
    assert err == "word\nwarning: careful\nerror: no device\nhint: Plug one in.\nerror: no more\n"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("{0}/train.py:7: no loop", "train.py:7: no loop"),
        ("in {0}/runs/a/run.log.", "in runs/a/run.log."),
        ("{0} is no repository", "{0} is no repository"),
        ("file://{0}/report.html", "file://{0}/report.html"),
        ("/other{0}/train.py", "/other{0}/train.py"),
        ("{0}-2/train.py", "{0}-2/train.py"),
    ],
)
def test_paths_below_the_working_directory_stand_as_they_are_typed(
    said: str,
    shown: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    console.fail(NotReady(said.format(tmp_path)))
    assert capsys.readouterr().err == f"error: {shown.format(tmp_path)}\n"


HOSTILE = "a\x1b]0;owned\x07b\rc\x9b2Jd\u202ee\x7ff"
SHOWN = r"a\x1b]0;owned\x07b\rc\x9b2Jd\u202ee\x7ff"


@pytest.mark.parametrize("color", ["", "1"])
def test_nothing_of_others_steers_the_terminal(
    color: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", color)
    narrator = console.Narrator(verbose=True)
    for tell in (console.out, console.say, console.warn, narrator.note):
        tell(HOSTILE)
    console.fail(NotReady(HOSTILE, HOSTILE))
    narrator.stage(HOSTILE, HOSTILE)
    narrator.record({"event": "sample", "label": HOSTILE, "ms": 1, "kind": HOSTILE})
    narrator.line(f"  0%\r 50%\r{HOSTILE.replace(chr(13), '')}\r\n")
    told = "".join(capsys.readouterr())
    own = re.compile(r"\x1b\[[0-9;]*m")
    assert bool(own.search(told)) is bool(color)
    assert own.sub("", told).replace("\n", "").isprintable()
    assert told.count(SHOWN) == 10 and "| " + SHOWN.replace(r"\r", "") in told


def test_a_diff_on_a_terminal_is_shown_and_elsewhere_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stdout", terminal)
    console.diff(b"+\x1b]0;owned\x07\n")
    assert terminal.getvalue() == "+\\x1b]0;owned\\x07\n"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_no_character_is_too_strange_for_a_terminal(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding=encoding))
    console.accept_every_character()
    console.out("1 ± 2 μs … █ \udcff \u4e00")
    sys.stdout.flush()
    told = raw.getvalue().decode(encoding)
    if encoding == "ascii":
        assert told == "1 +- 2 us ... # \\udcff \\u4e00\n"
    assert "\\udcff" in told


PATCH = b"--- a/t.py\n+++ b/t.py\n@@ -1 +1 @@\n-caf\xe9\n+\xff\r\n context\n"


def test_a_diff_keeps_its_bytes(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    console.diff(PATCH)
    assert capsysbinary.readouterr().out == PATCH


def test_a_diff_in_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    console.diff(PATCH)
    lines = capsys.readouterr().out.split("\n")
    starts = [line.partition("m")[0].removeprefix("\x1b[") for line in lines]
    assert starts[:5] == ["1", "1", "36", "31", "32"]
    assert lines[5:] == [" context", ""]


def test_a_run_is_told_line_by_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 0.25, 1.0, 1.5, 2.0, 3.0])
    monkeypatch.setattr("time.monotonic", lambda: next(clock))
    narrator = console.Narrator()
    narrator.stage("running", "5 steps under torch")
    narrator.record({"event": "sample", "label": "fwd+bwd", "ms": 12.345, "kind": "compile"})
    narrator.record({"event": "load", "file": "train.py"})
    steady = {"label": "fwd+bwd", "ms": 3.0, "kind": "steady", "name": "step_steady_1"}
    narrator.record({"event": "sample", **steady})
    narrator.record({"event": "profiled", "ms": 3.21})
    narrator.record({"event": "complete"})
    narrator.line("not shown")
    assert capsys.readouterr().err.splitlines() == [
        "[   0.2 s] Running 5 steps under torch",
        "[   1.0 s]   step 0: fwd+bwd 12.3 ms (first step)",
        "[   1.5 s]   step 1: fwd+bwd 3.0 ms (steady)",
        "[   2.0 s]   one step under the profiler: 3.21 ms",
        "[   3.0 s]   all 2 samples are taken; stopping the script",
    ]


def test_steps_of_the_warm_up_that_are_taken_as_steady_are_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    narrator = console.Narrator()
    narrator.record({"event": "steady", "names": ["step_warmup_2"]})
    narrator.record({"event": "steady", "names": ["step_warmup_2", "step_warmup_3"]})
    one, two = capsys.readouterr().err.splitlines()
    assert "the script has ended; one of its warm-up steps is taken as steady" in one
    assert "2 warm-up steps are taken as steady" in two


def test_one_sample_is_told_as_one(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = console.Narrator()
    narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "compile"})
    narrator.record({"event": "complete"})
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.endswith("  the one sample is taken; stopping the script")


def test_no_silence_is_long(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    narrator = console.Narrator()

    def wait(seconds: int) -> None:
        nonlocal now
        for _ in range(seconds):
            now += 1
            narrator.beat(now)

    wait(11)
    narrator.stage("simulating", "tt-lang-sim")
    narrator.record({"event": "load", "file": "kernel.py"})
    wait(10)
    narrator.stage("profiler", "tracy")
    wait(9)
    narrator.stage("running", "5 steps under tracy")
    wait(10)
    narrator.record({"event": "load", "file": "train.py"})
    wait(20)
    narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "compile"})
    wait(12)
    narrator.record({"event": "complete"})
    wait(25)
    wait(60)  # the longer it takes, the less often it is said
    narrator.stage("analysing", "")
    wait(10)
    told = [line for line in capsys.readouterr().err.splitlines() if "still" in line]
    assert [line.partition("] ")[2].strip() for line in told] == [
        "still reading the script (10 s)",
        "still simulating the kernel (10 s)",
        "still running the script: nothing measured so far (10 s)",
        "still waiting for the first step (imports, data, compiling) (20 s)",
        "still waiting for the first step (imports, data, compiling) (30 s)",
        "still waiting for step 1 (10 s)",
        "still waiting for the script to end and for the profiler's report (10 s)",
        "still waiting for the script to end and for the profiler's report (20 s)",
        "still waiting for the script to end and for the profiler's report (30 s)",
        "still waiting for the script to end and for the profiler's report (45 s)",
        "still waiting for the script to end and for the profiler's report (68 s)",
        "still analysing (10 s)",
    ]


def test_a_step_without_a_line_of_its_own_is_no_long_wait(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    narrator = console.Narrator()
    for step in range(20):
        now += 1
        narrator.beat(now)
        narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": f"{step}"})
    told = [line for line in capsys.readouterr().err.splitlines() if "still" in line]
    assert [line.partition("] ")[2].strip() for line in told] == [
        "still measuring: 19 steps so far (1 s since the last)"
    ]


def test_the_time_left_is_that_of_the_steady_steps(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    narrator = console.Narrator()
    narrator.budget_s = 30.0

    def told(kind: str, seconds: float) -> str:
        nonlocal now
        for _ in range(11):
            narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": kind})
        now += seconds
        narrator.beat(now)
        return capsys.readouterr().err.rstrip().rpartition("so far ")[2]

    assert told("warmup", 12) == "(12 s since the last)"
    assert told("steady", 10) == "(10 s since the last, at most 20 s of steps left)"
    assert told("steady", 25) == "(25 s since the last)"


def test_a_narrator_that_is_alive_speaks_by_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "SILENCE_S", 0.0)
    monkeypatch.setattr(console, "_BEAT_S", 0.001)
    spoken = threading.Event()
    monkeypatch.setattr(console, "say", lambda text: spoken.set())
    before = threading.active_count()
    with console.Narrator().alive():
        assert spoken.wait(HANG_S)
    assert threading.active_count() == before


def test_the_last_line_of_a_terminal_says_what_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "60")
    narrator = console.Narrator(total=4)
    start = narrator.start
    monkeypatch.setattr("time.monotonic", lambda: start)
    narrator.beat(start + 1)
    narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "compile"})
    narrator.beat(start + 2)
    narrator.note("a stall")
    assert terminal.getvalue().split("\r\x1b[K") == [
        "",
        "[   1.0 s] reading the script (1 s)",
        "[   0.0 s]   step 0: step 1.0 ms (first step)\n",
        "[   2.0 s] 1/4 waiting for step 1 (2 s)",
        "warning: a stall\n",
    ]
    monkeypatch.setenv("COLUMNS", "50")
    narrator.doing = "waiting for the first step (imports, data, compiling)"
    narrator.beat(start + 2)
    assert terminal.getvalue().endswith("[   2.0 s] 1/4 waiting for the first step (2 s)")
    monkeypatch.setenv("COLUMNS", "120")
    narrator.beat(start + 2)
    assert "[#####---------------] 1/4 waiting for the first step (imp" in terminal.getvalue()
    monkeypatch.setenv("TERM", "dumb")
    drawn = terminal.getvalue()
    console.Narrator().beat(start + 3)
    assert "\x1b" not in terminal.getvalue().removeprefix(drawn)


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (100, "measuring: 127 steps so far (1 s since the last, at most 25 s of steps left)"),
        (80, "measuring: 127 steps so far (1 s, at most 25 s left)"),
    ],
)
def test_on_a_narrow_terminal_a_line_is_shortened_and_not_cut(
    monkeypatch: pytest.MonkeyPatch, columns: int, told: str
) -> None:
    terminal, now = Terminal(), 10.0
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("time.monotonic", lambda: now)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    narrator = console.Narrator()
    narrator.budget_s = 30.0
    for _ in range(126):
        narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "steady"})
    now = 14.0
    narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "steady"})
    narrator.beat(15.0)
    assert terminal.getvalue().endswith(f"[   5.0 s] {told}")


def test_an_error_has_an_end_whatever_it_names(capsys: pytest.CaptureFixture[str]) -> None:
    console.fail(NotReady("a" * 4_000_000, "b" * 4_000_000))
    console.warn("c" * 4_000_000)
    said = capsys.readouterr().err
    assert len(said) < 40_000 and said.count("(4,000,000 characters)") == 3


def test_quiet_still_warns(capsys: pytest.CaptureFixture[str]) -> None:
    narrator = console.Narrator(quiet=True)
    narrator.stage("running", "5 steps")
    narrator.record({"event": "sample", "label": "step", "ms": 1.0, "kind": "steady"})
    narrator.note("nothing has happened for 120 s")
    assert capsys.readouterr().err == "warning: nothing has happened for 120 s\n"


def test_a_progress_bar_only_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.progress_bar()(32, 64)
    assert capsys.readouterr().err == ""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show = console.progress_bar()
    for done in (1, 32, 64):
        show(done, 64)
    bars = terminal.getvalue()
    assert bars == f"\r[{'#' * 20}{'-' * 20}] 32/64\r[{'#' * 40}] 64/64\n"


def test_counts_in_one_line() -> None:
    line = console.counts_line({"inserted": 4, "moved": 1, "disabled": 2}, 5)
    assert line.startswith("Would insert at 4 places, move 1 statement, disable 2 statements: ")
    assert line.endswith("stop after 5 steps")


def test_the_words_of_a_command_can_be_pasted() -> None:
    assert console.quoted("instrument", "run", Path("a/train.py")) == "instrument run a/train.py"
    assert console.quoted(Path("my train ü.py"), "$x") == "'my train ü.py' '$x'"


def test_work_without_stages_says_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(console, "SILENCE_S", 0.0)
    monkeypatch.setattr(console, "_BEAT_S", 0.001)
    with console.Narrator.during("reading ops.csv"):
        wait_for(lambda: "still reading ops.csv" in capsys.readouterr().err)


def test_a_long_line_of_progress_is_broken_between_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    words = "loop at train.py:53 (forward 55, backward 57), and a few more under the profiler"
    for stream, columns in ((Terminal(), 50), (Terminal(), 200), (io.StringIO(), 50)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        console.Narrator().stage("located", f"  the {words}")
        lines = stream.getvalue().splitlines()
        assert " ".join(" ".join(lines).split()).endswith(words)
        broken = stream.isatty() and columns == 50
        assert len(lines) == (3 if broken else 1)
        assert all(line.startswith(" " * 11) and len(line) <= 50 for line in lines[1:])
