"""A run of a process tree: output, records, limits, and endings that leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from instrumentor.run.process import Finished, Stall, Stop, Watch, processes_of, run, running
from instrumentor.run.profilers.base import Launch
from instrumentor.shared.errors import NotReady, RunFailed
from tests.conftest import STANDINS
from tests.waiting import HANG_S, Clock, wait_for

HOLD = STANDINS / "bin" / "hold-device"
#: For processes that do not listen to gentle signals: waiting for them would be in vain.
QUICK: dict[str, Any] = {"grace_s": 0.4, "linger_s": 0.2}
GENTLE: dict[str, Any] = {"grace_s": HANG_S, "linger_s": 0.2}


def launch(folder: Path, source: str, **changes: Any) -> Launch:
    argv = (sys.executable, "-c", textwrap.dedent(source))
    return Launch(argv, dict(os.environ), folder, **changes)


def finished(folder: Path, source: str, stop: Stop | None = None, **watch: Any) -> Finished:
    """The end of a run whose log is ``log``."""
    order = launch(folder, source)
    return run(order, log=folder / "log", watch=Watch(**watch), stop=stop)


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


def test_only_what_bears_the_mark_is_of_a_run() -> None:
    """What is found here is ended when the guard was killed: nobody else may be among them."""
    assert processes_of("no-run-of-this-name") == ()


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
    ended = run(launch(tmp_path, source), log=log, watch=Watch(on_line=lines.append))
    assert lines == ["out", "err", "no newline"]
    assert log.read_text() == "out\nerr\nno newline"
    assert (ended.returncode, ended.signal) == (3, None)
    assert not (ended.timed_out or ended.interrupted or ended.ended)


def test_records_come_as_they_are_written(tmp_path: Path) -> None:
    """The script waits until its first record was read."""
    record, seen = tmp_path / "timings.jsonl", tmp_path / "seen"
    source = f"""
        import os, time
        with open({str(record)!r}, "w") as stream:
            stream.write('{{"index": 0}}\\n{{"ind'); stream.flush()
            while not os.path.exists({str(seen)!r}):
                time.sleep(0.01)
            stream.write('ex": 1}}\\nnot json\\n{{"index": 2}}\\n{{"half')
    """
    found: list[int] = []

    def on_record(entry: dict[str, Any]) -> None:
        found.append(entry["index"])
        seen.touch()

    watch = Watch(on_record=on_record, timeout_s=HANG_S)
    ended = run(launch(tmp_path, source), log=tmp_path / "log", record=record, watch=watch)
    assert found == [0, 1, 2] and not ended.timed_out


def test_arguments_and_environment_arrive_exactly(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys, os; print(ascii([sys.argv[1:], os.environ['E']]))")
    extra = ("a b", "$(x)", "it's", "new\nline", "\udcff", "")
    order = Launch((*argv, *extra), {**os.environ, "E": "\udcfe é"}, tmp_path)
    run(order, log=tmp_path / "log")
    told = (tmp_path / "log").read_text().strip()
    assert told == ascii([list(extra), "\udcfe é"])


def test_the_script_begins_as_from_a_shell(tmp_path: Path) -> None:
    """No signal ignored, no file of ours open, a group of its own; SIGINT should all of us die."""

    def said(*argv: str) -> list[str]:
        log = tmp_path / f"{argv[0].rpartition('/')[2]}.log"
        order = Launch(argv, dict(os.environ), tmp_path)
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


@pytest.mark.parametrize(
    ("program", "folder", "said"),
    [("/nowhere/python", "", "No such file"), (sys.executable, "gone", "gone: No such file")],
)
def test_a_missing_program_or_folder_is_an_error(
    tmp_path: Path, program: str, folder: str, said: str
) -> None:
    with pytest.raises(NotReady, match=said):
        run(Launch((program,), {}, tmp_path / folder), log=tmp_path / "log")


def test_the_time_limit_ends_the_run_gently(tmp_path: Path) -> None:
    source = """
        import time
        try:
            print("ready", flush=True)
            time.sleep(3600)
        except KeyboardInterrupt:
            print("saved")
            raise SystemExit(5)
    """
    clock = Clock()
    ended = finished(tmp_path, source, on_line=clock.go, clock=clock, timeout_s=9, **GENTLE)
    assert ended.timed_out and ended.duration_s >= 9
    assert ended.returncode == 5
    assert (tmp_path / "log").read_text() == "ready\nsaved\n"


DEAF = """
import signal, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(3600)
"""


def test_signals_grow_stronger(tmp_path: Path) -> None:
    sent: list[str] = []
    clock = Clock()
    ended = finished(
        tmp_path, DEAF, on_line=clock.go, clock=clock, timeout_s=9,
        on_event=lambda event: sent.append(event.get("signal", "")), **QUICK,
    )  # fmt: skip
    assert [name for name in sent if name] == ["SIGINT", "SIGTERM", "SIGKILL"]
    assert ended.signal == signal.SIGKILL
    assert ended.left_running == ()


def test_what_holds_a_device_is_never_killed(tmp_path: Path, stubborn: list[int]) -> None:
    devices = tmp_path / "tenstorrent"
    devices.mkdir()
    (devices / "0").touch()
    order = Launch((str(HOLD), str(devices / "0"), "--stubborn"), dict(os.environ), tmp_path)
    clock = Clock()
    watch = Watch(timeout_s=9, on_line=clock.go, clock=clock, **QUICK)
    ended = run(order, log=tmp_path / "log", watch=watch, device_folder=devices)
    stubborn.extend(ended.left_running)
    assert ended.timed_out
    assert len(ended.left_running) == 1
    assert alive(ended.left_running[0])


def test_left_over_processes_are_ended(tmp_path: Path) -> None:
    # its parent is gone and it has a session of its own, as a capture program may
    source = """
        import subprocess, sys
        sleeper = [sys.executable, "-c", "import time; time.sleep(3600)"]
        code = f"import subprocess; subprocess.Popen({sleeper!r}, start_new_session=True)"
        subprocess.run([sys.executable, "-c", code])
    """
    ended = finished(tmp_path, source, **QUICK)
    assert ended.returncode == 0
    assert len(ended.ended) == 1
    assert processes_of(ended.run_id) == ()


def test_the_scripts_process_is_interrupted_first(tmp_path: Path) -> None:
    """Under Tracy the started process is a wrapper that gives up its report when signalled."""
    source = f"""
        import os, subprocess, sys
        code = '''
        import os, time
        open({str(tmp_path / "pid")!r}, "w").write(str(os.getpid()))
        print("ready", flush=True)
        try:
            time.sleep(3600)
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

    order = launch(tmp_path, source, pid_file=tmp_path / "pid", finish_s=HANG_S)
    watch = Watch(on_line=on_line, **GENTLE)
    ended = run(order, log=tmp_path / "log", watch=watch, stop=stop)
    assert (ended.interrupted, ended.returncode) == (True, 0)
    assert (tmp_path / "log").read_text().splitlines() == [
        "ready",
        "script interrupted",
        "wrapper made its report",
    ]


def test_a_wrapper_at_its_report_is_given_a_moment(tmp_path: Path) -> None:
    asked = tmp_path / "asked"
    source = f"""
        import os, subprocess, sys, time
        code = "import os; open({str(tmp_path / "pid")!r}, 'w').write(str(os.getpid()))"
        subprocess.run([sys.executable, "-c", code])
        print("script is done", flush=True)
        while not os.path.exists({str(asked)!r}):
            time.sleep(0.01)
        time.sleep(0.5)
        print("report")
    """
    stop = Stop()

    def on_line(line: str) -> None:
        if "done" in line:
            stop.request()
            asked.touch()

    order = launch(tmp_path, source, pid_file=tmp_path / "pid", finish_s=0.0)
    watch = Watch(on_line=on_line, **GENTLE)
    ended = run(order, log=tmp_path / "log", watch=watch, stop=stop)
    assert (ended.returncode, ended.interrupted) == (0, True)
    assert (tmp_path / "log").read_text().endswith("report\n")


class Twice(Stop):
    """Somebody who asks for the end twice as soon as the script says something."""

    def on_line(self, _line: str) -> None:
        self.request()
        self.request()


def test_a_second_request_does_not_wait(tmp_path: Path, stubborn: list[int]) -> None:
    stop = Twice()
    source = DEAF.replace("signal.signal(signal.SIGTERM, signal.SIG_IGN)\n", "")
    ended = finished(tmp_path, source, stop, on_line=stop.on_line, grace_s=4)
    stubborn.extend(ended.ending)
    assert ended.interrupted
    assert ended.left_running == () and len(ended.ending) == 1
    wait_for(lambda: not any(map(alive, ended.ending)))  # ended behind our back, gently


def test_a_second_request_names_nobody_who_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "LEAVING_S", HANG_S)
    stop = Twice()
    source = "import time\nprint('ready', flush=True)\ntime.sleep(3600)"
    ended = finished(tmp_path, source, stop, on_line=stop.on_line, **GENTLE)
    assert ended.interrupted and ended.ending == ()


def test_standing_still_is_told_once(tmp_path: Path) -> None:
    stalls: list[Stall] = []
    source = "import time; print('Waiting for lock', flush=True); time.sleep(3600)"
    clock, stop = Clock(), Stop()

    def on_stall(stall: Stall) -> None:
        stalls.append(stall)
        stop.request()

    ended = finished(
        tmp_path, source, stop, on_line=clock.go, clock=clock, on_stall=on_stall, stall_s=30,
        **GENTLE,
    )  # fmt: skip
    (stall,) = stalls
    assert stall.idle_s >= 30
    assert stall.last_lines == ("Waiting for lock",)
    assert len(stall.pids) == 1
    assert ended.interrupted and not ended.timed_out


def recording(
    folder: Path, source: str, clock: Clock, stop: Stop | None = None, **watch: Any
) -> Finished:
    """The end of a run whose script writes lines into ``stream``, the record, and then waits.

    Time passes once there is a record.
    """
    record = folder / "timings.jsonl"
    code = f"""
import os, time
def wait_for(name):
    while not os.path.exists(name):
        time.sleep(0.01)
with open({str(record)!r}, "w", buffering=1) as stream:
    {source}
    time.sleep(3600)
"""
    chosen = {"on_record": clock.go, **GENTLE, **watch}
    return run(
        launch(folder, code), log=folder / "log", record=record, stop=stop,
        watch=Watch(clock=clock, **chosen), device_folder=folder / "dev",
    )  # fmt: skip


SAMPLE = "print('{}', file=stream)"
COMPLETE = 'print(\'{"event": "complete"}\', file=stream)'


def test_what_goes_on_after_the_record_is_complete_is_ended(tmp_path: Path) -> None:
    told: list[dict[str, Any]] = []
    ended = recording(tmp_path, COMPLETE, Clock(), settle_s=9, on_event=told.append)
    assert ended.outlived and ended.ended
    assert not (ended.interrupted or ended.timed_out)
    events = [event["event"] for event in told]
    assert events.count("outlived") == 1
    assert events.index("outlived") < events.index("signalled")
    (alive_then,) = told[events.index("outlived")]["processes"]
    assert alive_then.startswith(f"pid {told[0]['pid']}: ") and alive_then.endswith("1 thread")


@pytest.mark.parametrize(("settle_s", "written"), [(None, COMPLETE), (3, SAMPLE)])
def test_without_a_complete_record_only_the_time_limit_ends_it(
    tmp_path: Path, settle_s: float | None, written: str
) -> None:
    ended = recording(tmp_path, written, Clock(), settle_s=settle_s, timeout_s=30)
    assert ended.timed_out and not ended.outlived
    assert ended.duration_s >= 30


def test_the_time_limit_of_a_complete_record_is_no_failure(tmp_path: Path) -> None:
    ended = recording(tmp_path, COMPLETE, Clock(), settle_s=60, timeout_s=30)
    assert ended.outlived and not ended.timed_out


def test_another_record_gives_the_time_again(tmp_path: Path) -> None:
    """As of a second rank that is slower: each record comes when most of the time has passed."""
    clock = Clock()
    seen: list[float] = []

    def on_record(_entry: dict[str, Any]) -> None:
        seen.append(clock.now)
        clock.now += 6
        (tmp_path / str(len(seen))).touch()
        if len(seen) == 4:
            clock.go()

    further = [f"wait_for({str(tmp_path / str(number))!r}); {SAMPLE}" for number in (1, 2, 3)]
    source = "\n    ".join([COMPLETE, *further])
    ended = recording(tmp_path, source, clock, settle_s=9, on_record=on_record)
    assert ended.outlived and seen == [0, 6, 12, 18]


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ('print(\'{"event": "leaving"}\', file=stream)', "exiting"),
        ("device = open('dev/node')", "has the device open"),
    ],
)
def test_what_is_slow_to_end_is_waited_for(tmp_path: Path, source: str, why: str) -> None:
    """The runtime of a device takes its time to let go of it, and must not be signalled then."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "node").touch()
    told: list[dict[str, Any]] = []
    clock = Clock()

    def on_event(event: dict[str, Any]) -> None:
        told.append(event)
        if event["event"] == "closing":
            clock.stop_at(0)
            (tmp_path / "go").touch()

    source = f"{source}; {COMPLETE}; wait_for('go'); os._exit(0)"
    ended = recording(tmp_path, source, clock, settle_s=9, on_event=on_event)
    assert (ended.returncode, ended.outlived, ended.ended) == (0, False, ())
    closing = [event["why"] for event in told if event["event"] == "closing"]
    assert len(closing) == 1 and why in closing[0]


def test_an_interruption_of_a_complete_record_is_one(tmp_path: Path) -> None:
    stop = Stop()
    ended = recording(
        tmp_path, COMPLETE, Clock(), stop, settle_s=60, on_record=lambda entry: stop.request()
    )
    assert ended.interrupted and not ended.outlived


def test_a_failing_listener_ends_the_run(tmp_path: Path) -> None:
    pids: list[int] = []

    def on_event(event: dict[str, Any]) -> None:
        if event["event"] == "started":
            pids.append(event["pid"])
            raise KeyError("listener")

    with pytest.raises(KeyError):
        finished(tmp_path, "import time; time.sleep(3600)", on_event=on_event, **QUICK)
    assert not alive(pids[0])


TOOL = """\
import json, os, sys
from pathlib import Path
from instrumentor.run.process import Watch, run
from instrumentor.run.profilers.base import Launch
folder = Path(sys.argv[1])
code = '''
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)"],
                         start_new_session=True)
print(os.getpid(), child.pid, "ready", flush=True)
time.sleep(3600)
'''
order = Launch((sys.executable, "-c", code), dict(os.environ), folder)
finished = run(order, log=folder / "log", watch=Watch(grace_s=60.0, linger_s=0.2))
print(json.dumps([finished.returncode, finished.interrupted]))
"""


def start_tool(folder: Path) -> subprocess.Popen[str]:
    tool = subprocess.Popen([sys.executable, "-c", TOOL, folder], stdout=subprocess.PIPE, text=True)
    log = folder / "log"
    wait_for(lambda: log.exists() and "ready" in log.read_text())
    return tool


def pids_of_run(folder: Path) -> list[int]:
    return [int(word) for word in (folder / "log").read_text().split()[:2]]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_and_sigterm_end_the_tree_and_the_tool_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    tool = start_tool(tmp_path)
    tool.send_signal(number)
    printed, _ = tool.communicate(timeout=HANG_S)
    assert json.loads(printed) == [-signal.SIGINT, True]
    assert not any(map(alive, pids_of_run(tmp_path)))


def test_killing_the_tool_ends_the_tree(tmp_path: Path) -> None:
    tool = start_tool(tmp_path)
    tool.kill()
    tool.communicate(timeout=HANG_S)
    wait_for(lambda: not any(map(alive, pids_of_run(tmp_path))))


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
    tool.communicate(timeout=HANG_S)
    assert "tool" in killed or tool.returncode == 1
    wait_for(lambda: not any(map(alive, pids_of_run(tmp_path))))


KILLER = """
    import ctypes, os, signal, time
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when its parent dies
    second = os.getppid()
    with open(f"/proc/{second}/stat") as stream:
        first = int(stream.read().rpartition(")")[2].split()[1])
    HELD
    for pid in (first, second):
        os.kill(pid, signal.SIGSTOP)
    if os.fork() == 0:
        os.execve("/bin/sleep", ["sleep", "3600"], {})  # without the run's mark
    for pid in (first, second):
        os.kill(pid, signal.SIGKILL)
    time.sleep(3600)
"""


def test_a_script_that_kills_its_watchers_is_ended_all_the_same(tmp_path: Path) -> None:
    run_id = f"{os.getpid()}-{time.time_ns()}"
    order = launch(tmp_path, KILLER.replace("HELD", ""))
    order = replace(order, env={**order.env, "INSTRUMENT_RUN_ID": run_id})
    with pytest.raises(RunFailed, match="watches over the run was ended") as caught:
        run(order, log=tmp_path / "log", watch=Watch(**QUICK))
    assert "Still running" not in caught.value.message
    assert processes_of(run_id) == ()


def test_what_a_killed_watcher_leaves_at_a_device_is_named(
    tmp_path: Path, stubborn: list[int]
) -> None:
    (tmp_path / "device").touch()
    run_id = f"{os.getpid()}-{time.time_ns()}"
    order = launch(tmp_path, KILLER.replace("HELD", f"held = open({str(tmp_path / 'device')!r})"))
    order = replace(order, env={**order.env, "INSTRUMENT_RUN_ID": run_id})
    with pytest.raises(RunFailed) as caught:
        run(order, log=tmp_path / "log", watch=Watch(**QUICK), device_folder=tmp_path)
    left = processes_of(run_id)
    stubborn.extend(left)
    assert left and f"Still running: {' '.join(map(str, left))}." in caught.value.message


STOPPER = """
    import os, signal, time
    second = os.getppid()
    with open(f"/proc/{second}/stat") as stream:
        first = int(stream.read().rpartition(")")[2].split()[1])
    for pid in (first, second):
        os.kill(pid, signal.SIGSTOP)
    print("stopped", flush=True)
    time.sleep(3600)
"""


def test_a_script_that_stops_its_watchers_meets_its_time_limit(tmp_path: Path) -> None:
    ended = finished(tmp_path, STOPPER, timeout_s=1.0, **GENTLE)
    assert ended.timed_out and ended.returncode == -signal.SIGINT


def test_a_script_that_stops_its_watchers_can_be_interrupted(tmp_path: Path) -> None:
    stop = Stop()
    ended = finished(tmp_path, STOPPER, stop, on_line=lambda _: stop.request(), **GENTLE)
    assert ended.interrupted and ended.returncode == -signal.SIGINT


def test_watchers_that_come_to_no_end_are_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when something stops them again and again."""
    monkeypatch.setattr(running, "SLACK_S", 0.0)
    monkeypatch.setattr(running._Run, "_wake", lambda _: None)
    run_id = f"{os.getpid()}-{time.time_ns()}"
    order = launch(tmp_path, STOPPER)
    order = replace(order, env={**order.env, "INSTRUMENT_RUN_ID": run_id}, finish_s=0.0)
    with pytest.raises(RunFailed, match="watches over the run was ended"):
        run(order, log=tmp_path / "log", watch=Watch(timeout_s=0.5, **QUICK))
    assert processes_of(run_id) == ()


def test_of_two_watchers_the_first_wakes_the_second(tmp_path: Path) -> None:
    """Nobody else is left to do it when the tool was killed."""
    tool = start_tool(tmp_path)
    (first,) = psutil.Process(tool.pid).children()
    (second,) = first.children()
    second.suspend()
    tool.kill()
    tool.communicate(timeout=HANG_S)
    wait_for(lambda: not any(map(alive, pids_of_run(tmp_path))))


def test_a_record_that_was_blown_up_fails_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "RECORD_BYTES", 1 << 20)  # what is read all the same has an end
    monkeypatch.setattr(running, "RECORD_LINES", 1000)
    record = tmp_path / "timings.jsonl"
    blown_up = f"os.truncate({str(record)!r}, 1 << 24)"
    flooded = f"open({str(record)!r}, 'w').write('{{}}\\n' * 1001)"
    source = f"""
        import os, time
        open({str(record)!r}, "w").close()
        DO
        WAIT
    """
    for do, wait, told in (
        (blown_up, "", "16,777,216 bytes"),
        (blown_up, "time.sleep(3600)", "16,777,216 bytes"),
        (flooded, "", "more than 1,000 lines"),
        (flooded, "time.sleep(3600)", "more than 1,000 lines"),
    ):
        run_id = f"{os.getpid()}-{time.time_ns()}"
        order = launch(tmp_path, source.replace("DO", do).replace("WAIT", wait))
        order = replace(order, env={**order.env, "INSTRUMENT_RUN_ID": run_id})
        with pytest.raises(RunFailed, match=f"the record .*timings.jsonl has {told}"):
            run(order, log=tmp_path / "log", record=record, watch=Watch(**QUICK))
        assert processes_of(run_id) == ()
        record.unlink()


def test_the_first_watcher_alone_is_not_missed(tmp_path: Path) -> None:
    tool = start_tool(tmp_path)
    (first,) = psutil.Process(tool.pid).children()
    first.kill()
    time.sleep(0.2)
    assert all(map(alive, pids_of_run(tmp_path)))
    tool.send_signal(signal.SIGINT)
    printed, _ = tool.communicate(timeout=HANG_S)
    assert json.loads(printed) == [-signal.SIGINT, True]


@pytest.mark.slow
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
        wait_for(lambda run_id=run_id: not processes_of(run_id))
