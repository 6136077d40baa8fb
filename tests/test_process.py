"""A run of a process tree: output, records, limits, and endings that leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from instrumentor.errors import NotReady
from instrumentor.process import Stall, Stop, Tail, Watch, excerpt, processes_of, record_of, run
from instrumentor.profilers.base import Launch

HOLD = Path(__file__).parent / "standins" / "bin" / "hold-device"
QUICK: dict[str, Any] = {"grace_s": 0.4, "linger_s": 0.2}


def launch(folder: Path, source: str, **changes: Any) -> Launch:
    argv = (sys.executable, "-c", textwrap.dedent(source))
    return Launch(argv, {**os.environ, **changes.pop("env", {})}, folder, "test", **changes)


def wait_for(path: Path, text: str = "", seconds: float = 10) -> None:
    limit = time.monotonic() + seconds
    while not (path.exists() and text in path.read_text()):
        assert time.monotonic() < limit, f"{text!r} never came in {path}"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.fixture
def stubborn() -> Iterator[list[int]]:
    """Processes that a test leaves running on purpose."""
    pids: list[int] = []
    yield pids
    for pid in pids:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)


def test_output_goes_to_the_log_and_the_listener(tmp_path: Path) -> None:
    lines: list[str] = []
    source = """
        import sys
        print("out"); sys.stdout.flush()
        print("err", file=sys.stderr)
        print("no newline", end=""); sys.stdout.flush()
        sys.exit(3)
    """
    log = tmp_path / "out" / "run.log"
    finished = run(launch(tmp_path, source), log=log, watch=Watch(on_line=lines.append))
    assert lines == ["out", "err", "no newline"]
    assert log.read_text() == "out\nerr\nno newline"
    assert (finished.returncode, finished.signal) == (3, None)
    assert not (finished.timed_out or finished.interrupted or finished.ended)


def test_records_come_as_they_are_written(tmp_path: Path) -> None:
    record = tmp_path / "timings.jsonl"
    seen: list[tuple[int, bool]] = []
    source = f"""
        import time
        with open({str(record)!r}, "w") as stream:
            stream.write('{{"index": 0}}\\n{{"ind'); stream.flush()
            time.sleep(0.4)
            stream.write('ex": 1}}\\nnot json\\n{{"index": 2}}\\n{{"half')
    """
    done = threading.Event()

    def on_record(entry: dict[str, Any]) -> None:
        seen.append((entry["index"], done.is_set()))

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "exited":
            done.set()

    watch = Watch(on_record=on_record, on_event=on_event)
    run(launch(tmp_path, source), log=tmp_path / "log", record=record, watch=watch)
    assert [index for index, _ in seen] == [0, 1, 2]
    assert seen[0] == (0, False)


def test_tail_waits_for_whole_lines(tmp_path: Path) -> None:
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
        '{"event": "warning"}', '{"event": "profiled"}', "[1]", '{"event"', "[" * 100_000,
    ],
)  # fmt: skip
def test_what_a_script_writes_into_the_record_is_no_sample(line: str) -> None:
    assert record_of(line) is None
    whole = {"event": "sample", "label": "a", "kind": "steady", "ms": 1, "more": 2}
    assert record_of(json.dumps(whole)) == whole
    assert record_of('{"event": ["odd"]}') == {"event": ["odd"]}


def test_arguments_and_environment_arrive_exactly(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys, os; print(ascii([sys.argv[1:], os.environ['E']]))")
    extra = ("a b", "$(x)", "it's", "new\nline", "\udcff", "")
    order = Launch((*argv, *extra), {**os.environ, "E": "\udcfe é"}, tmp_path, "test")
    run(order, log=tmp_path / "log")
    told = (tmp_path / "log").read_text().strip()
    assert told == ascii([list(extra), "\udcfe é"])


def test_the_script_begins_as_from_a_shell(tmp_path: Path) -> None:
    """No signal ignored, no file of ours open, a group of its own; SIGINT should all of us die."""

    def said(*argv: str) -> list[str]:
        log = tmp_path / f"{argv[0].rpartition('/')[2]}.log"
        order = Launch(argv, dict(os.environ), tmp_path, "test")
        run(order, log=log, watch=Watch(**QUICK))
        return log.read_text().split()

    ignored = int(said("grep", "SigIgn", "/proc/self/status")[1], 16)
    usual = ("INT", "TERM", "HUP", "CHLD", "PIPE", "XFSZ")
    assert not [name for name in usual if ignored >> (signal.Signals[f"SIG{name}"] - 1) & 1]
    assert said("ls", "/proc/self/fd") == ["0", "1", "2", "3"]  # the last one is that of ls itself
    source = """
        import ctypes, os
        number = ctypes.c_int()
        ctypes.CDLL(None).prctl(2, ctypes.byref(number))  # PR_GET_PDEATHSIG
        print(number.value, os.getpgrp() == os.getpid())
    """
    code = textwrap.dedent(source)
    assert said(sys.executable, "-c", code) == [str(int(signal.SIGINT)), "True"]


def test_a_missing_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="No such file"):
        run(Launch(("/nowhere/python",), {}, tmp_path, "test"), log=tmp_path / "log")


def test_a_missing_working_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(NotReady, match="gone"):
        run(launch(tmp_path / "gone", "pass"), log=tmp_path / "log")


def test_a_crash_tells_its_signal(tmp_path: Path) -> None:
    source = "import os; os.kill(os.getpid(), 11)"
    finished = run(launch(tmp_path, source), log=tmp_path / "log")
    assert (finished.returncode, finished.signal) == (-11, 11)


def test_the_time_limit_ends_the_run_gently(tmp_path: Path) -> None:
    source = """
        import time
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            print("saved")
            raise SystemExit(5)
    """
    finished = run(
        launch(tmp_path, source), log=tmp_path / "log", watch=Watch(timeout_s=0.4, **QUICK)
    )
    assert finished.timed_out
    assert finished.returncode == 5
    assert (tmp_path / "log").read_text() == "saved\n"


def test_the_time_limit_follows_the_given_clock(tmp_path: Path) -> None:
    times = iter(range(0, 100_000, 100))
    finished = run(
        launch(tmp_path, "import time; time.sleep(60)"),
        log=tmp_path / "log",
        watch=Watch(timeout_s=500, clock=lambda: next(times), **QUICK),
    )
    assert finished.timed_out
    assert finished.duration_s % 100 == 0


def test_signals_grow_stronger(tmp_path: Path) -> None:
    sent: list[str] = []
    source = """
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    """
    watch = Watch(
        timeout_s=0.4,
        on_event=lambda event: sent.append(event.get("signal", "")),
        **QUICK,
    )
    finished = run(launch(tmp_path, source), log=tmp_path / "log", watch=watch)
    assert [name for name in sent if name] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert finished.signal == signal.SIGKILL
    assert finished.left_running == ()


def test_what_holds_a_device_is_never_killed(tmp_path: Path, stubborn: list[int]) -> None:
    devices = tmp_path / "tenstorrent"
    devices.mkdir()
    (devices / "0").touch()
    order = Launch((str(HOLD), str(devices / "0"), "--stubborn"), dict(os.environ), tmp_path, "t")
    watch = Watch(timeout_s=0.6, **QUICK)
    finished = run(order, log=tmp_path / "log", watch=watch, device_folder=devices)
    stubborn.extend(finished.left_running)
    assert finished.timed_out
    assert len(finished.left_running) == 1
    assert alive(finished.left_running[0])


def test_left_over_processes_are_ended(tmp_path: Path) -> None:
    # its parent is gone and it has a session of its own, as a capture program may
    source = """
        import subprocess, sys
        sleeper = [sys.executable, "-c", "import time; time.sleep(60)"]
        code = f"import subprocess; subprocess.Popen({sleeper!r}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", code])
    """
    finished = run(launch(tmp_path, source), log=tmp_path / "log", watch=Watch(**QUICK))
    assert finished.returncode == 0
    assert len(finished.ended) == 1
    assert processes_of(finished.run_id) == ()


def test_the_scripts_process_is_interrupted_first(tmp_path: Path) -> None:
    """Under Tracy the started process is a wrapper that gives up its report when signalled."""
    source = f"""
        import os, subprocess, sys
        code = '''
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print("ready", flush=True)
        try:
            time.sleep(60)
        except KeyboardInterrupt:
            print("script interrupted", flush=True)
        '''
        import textwrap
        subprocess.run([sys.executable, "-c", textwrap.dedent(code)], start_new_session=True)
        print("wrapper made its report")
    """
    stop = Stop()

    def on_line(line: str) -> None:
        if line == "ready":
            stop.request()

    order = launch(tmp_path, source, pid_file=tmp_path / "pid", finish_s=5.0)
    finished = run(order, log=tmp_path / "log", watch=Watch(on_line=on_line, grace_s=5), stop=stop)
    assert finished.interrupted
    assert finished.returncode == 0
    assert (tmp_path / "log").read_text().splitlines() == [
        "ready",
        "script interrupted",
        "wrapper made its report",
    ]


def test_a_wrapper_at_its_report_is_given_a_moment(tmp_path: Path) -> None:
    source = f"""
        import subprocess, sys, time
        code = "import os; open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid()))"
        subprocess.run([sys.executable, "-c", code])
        print("script is done", flush=True)
        time.sleep(0.5)
        print("report")
    """
    stop = Stop()
    order = launch(tmp_path, source, pid_file=tmp_path / "pid", finish_s=0.0)
    watch = Watch(on_line=lambda line: stop.request() if "done" in line else None, grace_s=5)
    finished = run(order, log=tmp_path / "log", watch=watch, stop=stop)
    assert (finished.returncode, finished.interrupted) == (0, True)
    assert (tmp_path / "log").read_text().endswith("report\n")


def test_a_second_request_does_not_wait(tmp_path: Path, stubborn: list[int]) -> None:
    source = """
        import signal, time
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        print("ready", flush=True)
        time.sleep(60)
    """
    stop = Stop()

    def on_line(line: str) -> None:
        stop.request()
        stop.request()

    finished = run(
        launch(tmp_path, source),
        log=tmp_path / "log",
        watch=Watch(on_line=on_line, grace_s=1.5),
        stop=stop,
    )
    stubborn.extend(finished.ending)
    assert finished.interrupted
    assert finished.left_running == () and len(finished.ending) == 1
    limit = time.monotonic() + 10
    while any(map(alive, finished.ending)):  # ended behind our back, gently
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_second_request_names_nobody_who_has_gone(tmp_path: Path) -> None:
    stop = Stop()

    def on_line(line: str) -> None:
        stop.request()
        stop.request()

    source = "import time\nprint('ready', flush=True)\ntime.sleep(60)"
    watch = Watch(on_line=on_line, grace_s=5)
    finished = run(launch(tmp_path, source), log=tmp_path / "log", watch=watch, stop=stop)
    assert finished.interrupted and finished.ending == ()


def test_standing_still_is_told_once_and_can_end_the_run(tmp_path: Path) -> None:
    stalls: list[Stall] = []
    source = "print('Waiting for lock', flush=True); import time; time.sleep(60)"

    def on_stall(stall: Stall) -> bool:
        stalls.append(stall)
        return True

    finished = run(
        launch(tmp_path, source),
        log=tmp_path / "log",
        watch=Watch(on_stall=on_stall, stall_s=0.5, **QUICK),
    )
    assert len(stalls) == 1
    assert stalls[0].idle_s >= 0.5
    assert stalls[0].last_lines == ("Waiting for lock",)
    assert len(stalls[0].pids) == 1
    assert not finished.timed_out
    assert finished.signal == signal.SIGINT


def complete_and_wait(record: Path, before: str = "") -> str:
    return f"""
import time
with open({str(record)!r}, "w") as stream:
    stream.write('{{"event": "complete"}}\\n'); stream.flush()
    {before}
    time.sleep(60)
"""


def test_what_goes_on_after_the_record_is_complete_is_ended(tmp_path: Path) -> None:
    record = tmp_path / "timings.jsonl"
    told: list[dict[str, Any]] = []
    watch = Watch(settle_s=0.3, on_event=told.append, **QUICK)
    finished = run(
        launch(tmp_path, complete_and_wait(record)),
        log=tmp_path / "log",
        record=record,
        watch=watch,
    )
    assert finished.outstayed and finished.ended
    assert not (finished.interrupted or finished.timed_out)
    events = [event["event"] for event in told]
    assert events.count("outstayed") == 1
    assert events.index("outstayed") < events.index("signalled")
    (alive_then,) = told[events.index("outstayed")]["processes"]
    assert alive_then.startswith(f"pid {told[0]['pid']}: ") and alive_then.endswith("1 thread")


@pytest.mark.parametrize(("settle_s", "complete"), [(None, True), (0.3, False)])
def test_without_a_complete_record_only_the_time_limit_ends_it(
    tmp_path: Path, settle_s: float | None, complete: bool
) -> None:
    record = tmp_path / "timings.jsonl"
    source = complete_and_wait(record)
    if not complete:
        source = source.replace('"complete"', '"sample"')
    finished = run(
        launch(tmp_path, source),
        log=tmp_path / "log",
        record=record,
        watch=Watch(settle_s=settle_s, timeout_s=1.0, **QUICK),
    )
    assert finished.timed_out and not finished.outstayed
    assert finished.duration_s >= 1.0


def test_the_time_limit_of_a_complete_record_is_no_failure(tmp_path: Path) -> None:
    record = tmp_path / "timings.jsonl"
    finished = run(
        launch(tmp_path, complete_and_wait(record)),
        log=tmp_path / "log",
        record=record,
        watch=Watch(settle_s=60, timeout_s=1.0, **QUICK),
    )
    assert finished.outstayed and not finished.timed_out


def test_another_record_gives_the_time_again(tmp_path: Path) -> None:
    """As of a second rank that is slower."""
    record = tmp_path / "timings.jsonl"
    more = "for _ in range(5): time.sleep(0.3); stream.write('{}\\n'); stream.flush()"
    finished = run(
        launch(tmp_path, complete_and_wait(record, more)),
        log=tmp_path / "log",
        record=record,
        watch=Watch(settle_s=0.8, **QUICK),
    )
    assert finished.outstayed and finished.duration_s >= 1.5 + 0.8


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ("stream.write('{\"event\": \"leaving\"}\\n'); stream.flush(); time.sleep(4)", "leaving"),
        ("device = open('dev/node'); time.sleep(4)", "has the device open"),
        ("kept = [b'x' * (8 << 20) + bytes([n]) for n in range(30)]\n    "
         "while kept: kept.pop(); time.sleep(0.15)", "given back"),
    ],
)  # fmt: skip
def test_what_is_slow_to_end_is_waited_for(tmp_path: Path, before: str, why: str) -> None:
    """The runtime of a device takes its time to let go of it, and must not be signalled then."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "node").touch()
    record = tmp_path / "timings.jsonl"
    told: list[dict[str, Any]] = []
    source = complete_and_wait(record, before).replace("time.sleep(60)", "pass")
    finished = run(
        launch(tmp_path, source),
        log=tmp_path / "log",
        record=record,
        watch=Watch(settle_s=2.2, on_event=told.append, **QUICK),
        device_folder=tmp_path / "dev",
    )
    assert (finished.returncode, finished.outstayed, finished.ended) == (0, False, ())
    closing = [event["why"] for event in told if event["event"] == "closing"]
    assert len(closing) == 1 and why in closing[0]


def test_an_interruption_of_a_complete_record_is_one(tmp_path: Path) -> None:
    record = tmp_path / "timings.jsonl"
    stop = Stop()
    watch = Watch(settle_s=60, on_record=lambda entry: stop.request(), **QUICK)
    finished = run(
        launch(tmp_path, complete_and_wait(record)),
        log=tmp_path / "log",
        record=record,
        watch=watch,
        stop=stop,
    )
    assert finished.interrupted and not finished.outstayed


def test_a_busy_process_does_not_stand_still(tmp_path: Path) -> None:
    stalls: list[Stall] = []
    source = "import time\nend = time.time() + 2.5\nwhile time.time() < end: pass"

    def on_stall(stall: Stall) -> bool:
        stalls.append(stall)
        return False

    watch = Watch(on_stall=on_stall, stall_s=1.5)
    run(launch(tmp_path, source), log=tmp_path / "log", watch=watch)
    assert stalls == []


def test_a_failing_listener_ends_the_run(tmp_path: Path) -> None:
    pids: list[int] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "started":
            pids.append(event["pid"])
            raise KeyError("listener")

    with pytest.raises(KeyError):
        run(
            launch(tmp_path, "import time; time.sleep(60)"),
            log=tmp_path / "log",
            watch=Watch(on_event=on_event, **QUICK),
        )
    assert not alive(pids[0])


TOOL = """\
import json, os, sys
from pathlib import Path
from instrumentor.process import Watch, run
from instrumentor.profilers.base import Launch
folder = Path(sys.argv[1])
code = '''
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"],
                         start_new_session=True)
print(os.getpid(), child.pid, "ready", flush=True)
time.sleep(60)
'''
order = Launch((sys.executable, "-c", code), dict(os.environ), folder, "test")
finished = run(order, log=folder / "log", watch=Watch(grace_s=1.0, linger_s=0.2))
print(json.dumps([finished.returncode, finished.interrupted]))
"""


def start_tool(folder: Path) -> subprocess.Popen[str]:
    tool = subprocess.Popen([sys.executable, "-c", TOOL, folder], stdout=subprocess.PIPE, text=True)
    wait_for(folder / "log", "ready")
    return tool


def pids_of_run(folder: Path) -> list[int]:
    return [int(word) for word in (folder / "log").read_text().split()[:2]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_tree_and_the_tool_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    tool = start_tool(tmp_path)
    tool.send_signal(number)
    printed, _ = tool.communicate(timeout=20)
    assert json.loads(printed) == [-signal.SIGINT, True]
    assert not any(map(alive, pids_of_run(tmp_path)))


def test_killing_the_tool_ends_the_tree(tmp_path: Path) -> None:
    tool = start_tool(tmp_path)
    tool.kill()
    tool.communicate(timeout=20)
    limit = time.monotonic() + 15
    while any(map(alive, pids_of_run(tmp_path))):
        assert time.monotonic() < limit
        time.sleep(0.02)


@pytest.mark.parametrize(
    "killed", [["tool", "first"], ["tool", "second"], ["first", "second"], ["second"]]
)
def test_killing_all_but_one_of_the_watchers_ends_the_grandchildren(
    tmp_path: Path, killed: list[str]
) -> None:
    tool = start_tool(tmp_path)
    (first,) = psutil.Process(tool.pid).children()
    (second,) = first.children()
    named = {"tool": tool.pid, "first": first.pid, "second": second.pid}
    for name in killed:  # stopped first: none of them may act on the other's death
        os.kill(named[name], signal.SIGSTOP)
    for name in killed:
        os.kill(named[name], signal.SIGKILL)
    tool.communicate(timeout=20)
    assert "tool" in killed or tool.returncode == 1
    limit = time.monotonic() + 15
    while any(map(alive, pids_of_run(tmp_path))):
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_the_first_watcher_alone_is_not_missed(tmp_path: Path) -> None:
    tool = start_tool(tmp_path)
    (first,) = psutil.Process(tool.pid).children()
    first.kill()
    time.sleep(0.2)
    assert all(map(alive, pids_of_run(tmp_path)))
    tool.send_signal(signal.SIGINT)
    printed, _ = tool.communicate(timeout=20)
    assert json.loads(printed) == [-signal.SIGINT, True]


def test_killing_the_tool_at_any_moment_leaves_no_process(tmp_path: Path) -> None:
    for moment in range(8):
        folder = tmp_path / str(moment)
        folder.mkdir()
        run_id = f"{os.getpid()}-{moment}-{time.time_ns()}"
        tool = subprocess.Popen(
            [sys.executable, "-c", TOOL, folder],
            stdout=subprocess.DEVNULL,
            env={**os.environ, "INSTRUMENT_RUN_ID": run_id},
        )
        time.sleep(0.05 + 0.06 * moment)
        tool.kill()
        tool.wait()
        limit = time.monotonic() + 15
        while processes_of(run_id):
            assert time.monotonic() < limit
            time.sleep(0.02)
