"""Any command under Tracy: how it is understood, and what comes out."""

from __future__ import annotations

import csv
import json
import os
import socket
import sys
from pathlib import Path

import pytest

from instrumentor.run.any_command import meant_for_a_shell, split, understand
from instrumentor.shared.errors import UsageError
from instrumentor_analysis.load.perf_trace import COLUMNS, join, read_messages
from tests.conftest import RunCli

STEPS = """\
import json, sys, tracy
print(json.dumps([__name__, sys.argv, sys.path[0]]), flush=True)
for step in ("a", "b"):
    tracy.signpost(step + "_start")
    tracy.signpost(step + "_end")
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "my work"
    folder.mkdir()
    (folder / "steps.py").write_text(STEPS)
    return folder


def table_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as stream:
        return list(csv.DictReader(stream))


def test_words(tmp_path: Path) -> None:
    assert split(["pytest", "-s", "a b"], tmp_path) == ["pytest", "-s", "a b"]
    assert split("pytest -s 'a b[x]'", tmp_path) == ["pytest", "-s", "a b[x]"]
    assert split(["pytest -svv tests/x.py::t[1-2]"], tmp_path) == [
        "pytest", "-svv", "tests/x.py::t[1-2]",
    ]  # fmt: skip
    (tmp_path / "my script.py").touch()
    assert split(["my script.py"], tmp_path) == ["my script.py"]
    with pytest.raises(UsageError, match="quot"):
        split("pytest 'x", tmp_path)
    with pytest.raises(UsageError, match="no command"):
        split([], tmp_path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("pytest -s 'a * b' x.py::t[1-2]", ()),
        ("a && b > log", ("&&", ">")),
        ("a $HOME/x *.py", ("$HOME", "*")),
        ('a "$HOME it\'s ; *" `b`', ("$HOME", "`")),
        (r"a \$HOME \*", ()),
        ("a '$HOME' \"${B}\"", ("${B}",)),
        ("a 2>&1 | tee $(b)", ("2>", "&", "|", "$(")),
        ("python -c 'import a; a.b()'", ()),
    ],
)
def test_what_only_a_shell_would_act_on(text: str, found: tuple[str, ...]) -> None:
    assert meant_for_a_shell(text) == found


def test_a_command_for_a_shell_is_warned_of(
    work: Path, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    env = {**tracy, "STANDIN_TRACY_FAIL": "no-port"}
    done = run_cli("profile", "steps.py $HOME && ls", cwd=work, env=env)
    assert "no shell reads the command: $HOME, && stays as written" in done.stderr
    quiet = run_cli("profile", "steps.py", "$HOME", cwd=work, env=env)
    assert "no shell" not in quiet.stderr


def test_without_tracy_the_remedy_is_one_of_profile(work: Path, run_cli: RunCli) -> None:
    done = run_cli("profile", "steps.py", cwd=work)
    assert done.returncode == 4
    assert "`instrument run`" in done.stderr
    assert "--profiler auto" not in done.stderr


def test_commands_are_understood(work: Path) -> None:
    path = os.environ["PATH"]
    script = {"script": str(work / "steps.py"), "arguments": ["x"]}
    assert understand(["steps.py", "x"], path, work).order == script
    found = understand(["python", "-u", "steps.py", "x"], path, work)
    assert (found.order, found.variables) == (script, {"PYTHONUNBUFFERED": "1"})
    assert understand(["python3", "-m", "pytest", "-s"], path, work).order == {
        "module": "pytest", "arguments": ["-s"],
    }  # fmt: skip
    assert understand([sys.executable, "-c", "x", "y"], path, work) == understand(
        [sys.executable, "-c", "x", "y"], path, work
    )
    assert understand([sys.executable, "-c", "x"], path, work).python == Path(sys.executable)
    console_script = work / "tool"
    console_script.write_text(f"#!{sys.executable}\n")
    console_script.chmod(0o755)
    found = understand(["./tool", "a"], path, work)
    assert (found.order["arguments"], found.python) == (["a"], Path(sys.executable))
    assert understand(["ls", "-l"], path, work).order["program"].endswith("/ls")
    for words in (["nothing-of-this-name"], ["python", "-i", "x.py"], ["python"]):
        with pytest.raises(UsageError):
            understand(words, path, work)


@pytest.mark.parametrize(
    "words",
    [
        ["ls", "test_x[op_by_op_torch-full]"],
        ["ls", "-n", "4"],
        ["ls", "-n4"],
        ["ls", "--numprocesses=auto"],
    ],
)
def test_several_processes_are_warned_of(work: Path, words: list[str]) -> None:
    (warning,) = understand(words, os.environ["PATH"], work).warnings
    assert "Tracy follows one process" in warning


MESSAGES = """\
MessageName;total_ns
MLIR_OP_LOCATION;loc("a;b.py":3:1);100
MLIR_CONST_EVAL_OP;true;101
MLIR_PROGRAM_METADATA;{'loop_number': 0; 'program_index': 1};102
`TT_DNN_DEVICE_OP: "Matmul", 123, 0, 1024 ->;103
`TT_DNN_DEVICE_OP: "Add", 124, 0, 2048`;104
MLIR_OP_LOCATION;loc("c.py":4:1);105
MLIR_CONST_EVAL_OP;false;106
`TT_DNN_DEVICE_OP: "Add", 125, 0, 3072`;107
"""


def test_messages_are_joined_by_call_count(tmp_path: Path) -> None:
    ops = tmp_path / "ops.csv"
    ops.write_text(
        "OP CODE,OP TYPE,GLOBAL CALL COUNT,ATTRIBUTES\n"
        "Matmul,tt_dnn_device,1024,{'x': 1; 'y': 2}\nstep_start,signpost,,\n"
        "Add,tt_dnn_device,2048,\nAdd,tt_dnn_device,3073.0,\nGone,tt_dnn_device,9216,\n"
        "Odd,tt_dnn_device,-,\n"
    )
    messages = tmp_path / "tracy_ops_data.csv"
    messages.write_text(MESSAGES)
    assert set(read_messages(messages)) == {1024, 2048, 3072}
    joined = join(ops, messages, tmp_path / "out.csv")
    assert (joined.rows, joined.located) == (4, 3)
    rows = table_of(tmp_path / "out.csv")
    assert list(rows[0]) == ["OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "ATTRIBUTES", *COLUMNS]
    assert rows[0]["LOC"] == 'loc("a;b.py":3:1)' and rows[0]["CONST_EVAL_OP"] == "true"
    assert rows[0]["PROGRAM_METADATA"] == "{'loop_number': 0; 'program_index': 1}"
    assert rows[0]["ATTRIBUTES"] == "{'x': 1; 'y': 2}"
    assert [row["LOC"] for row in rows] == [
        'loc("a;b.py":3:1)', "", 'loc("a;b.py":3:1)', 'loc("c.py":4:1)', "", "",
    ]  # fmt: skip
    assert rows[3]["CONST_EVAL_OP"] == "false"


def test_columns_that_are_there_stay(tmp_path: Path) -> None:
    ops = tmp_path / "ops.csv"
    ops.write_text("GLOBAL CALL COUNT,LOC\n1024,theirs\n")
    joined = join(ops, None, tmp_path / "out.csv")
    (row,) = table_of(tmp_path / "out.csv")
    assert (row["LOC"], joined.located, row["CONST_EVAL_OP"]) == ("theirs", 1, "")


@pytest.mark.parametrize(
    ("words", "name", "argv"),
    [
        (["steps.py", "a b", "$(x)"], "__main__", ["steps.py", "a b", "$(x)"]),
        (["python", "-m", "steps", "x;y"], "__main__", ["steps.py", "x;y"]),
        (["python -c 'import steps' 'q r'"], "steps", ["-c", "q r"]),
    ],
)
def test_a_command_in_one_csv(
    work: Path, run_cli: RunCli, tracy: dict[str, str], words: list[str], name: str,
    argv: list[str],
) -> None:  # fmt: skip
    done = run_cli("profile", *words, cwd=work, env=tracy)
    assert done.returncode == 0, done.stderr
    table = work / "results" / "perf" / "device_ops_perf_trace.csv"
    rows = table_of(table)
    assert {"LOC", "CONST_EVAL_OP", "PROGRAM_METADATA", "OP CODE"} <= set(rows[0])
    assert f"{table}: 38 device operations, 0 with LOC" in done.stdout
    assert "TT_RUNTIME_ENABLE_PERF_TRACE" in done.stderr
    assert "Tracy GUI" in done.stderr and table.with_suffix(".tracy").is_file()
    said = next(x for x in table.with_suffix(".log").read_text().splitlines() if x[:2] == '["')
    seen = json.loads(said)
    assert (seen[0], [Path(seen[1][0]).name, *seen[1][1:]]) == (name, argv)
    assert sorted(p.name for p in work.iterdir() if p.name != "__pycache__") == [
        "results", "steps.py",
    ]  # fmt: skip


def test_a_failing_command_still_has_its_csv(
    work: Path, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    (work / "bad.py").write_text(STEPS + "sys.exit(3)\n")
    done = run_cli("profile", "--json", "-o", "x/ops.csv", "bad.py", cwd=work, env=tracy)
    assert done.returncode == 1
    document = json.loads(done.stdout)
    assert (document["schema"], document["exit_code"]) == ("instrument-profile/1", 3)
    assert document["rows"] == 38 and (work / "x" / "ops.csv").is_file()
    assert "the script ended with code 3" in done.stderr


def test_a_failure_names_what_is_of_an_earlier_profile(
    work: Path, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    first = run_cli("profile", "-o", "ops.csv", "steps.py", cwd=work, env=tracy, fresh=True)
    assert first.returncode == 0, first.stderr
    before = (work / "ops.csv").read_bytes()
    (work / "bad.py").write_text("raise SystemExit(3)\n")
    nothing = {**tracy, "STANDIN_TRACY_FAIL": "capture-died"}
    done = run_cli("profile", "-o", "ops.csv", "bad.py", cwd=work, env=nothing)
    assert done.returncode == 1
    stale = "of an earlier profile: ops.csv, ops.tracy"
    assert stale in done.stderr and (work / "ops.csv").read_bytes() == before
    again = run_cli("profile", "-o", "ops.csv", "steps.py", cwd=work, env=tracy)
    assert again.returncode == 0 and "earlier profile" not in again.stderr


def test_workers_are_warned_of(work: Path, run_cli: RunCli, tracy: dict[str, str]) -> None:
    (work / "pool.py").write_text(
        STEPS + "import multiprocessing\n"
        "if __name__ == '__main__':\n"
        "    with multiprocessing.get_context('spawn').Pool(2) as pool:\n"
        "        print(pool.map(abs, [-1, -2]))\n"
    )
    done = run_cli("profile", "pool.py", cwd=work, env=tracy)
    assert done.returncode == 0, done.stderr
    assert "Tracy follows one process" in done.stderr and "worker processes" in done.stderr


def test_a_busy_port_is_seen_before_anything_runs(
    work: Path, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    with socket.socket() as busy:
        busy.bind(("", 0))
        busy.listen()
        port = busy.getsockname()[1]
        done = run_cli("profile", "--port", str(port), "steps.py", cwd=work, env=tracy)
    assert done.returncode == 4
    assert f"port {port} cannot be used by Tracy: Address already in use" in done.stderr
    assert "Leave --port out" in done.stderr
    assert not list(work.rglob("*.log"))


def test_a_port_is_passed_on(work: Path, run_cli: RunCli, tracy: dict[str, str]) -> None:
    (work / "port.py").write_text(STEPS + "import os\nprint('port', os.environ['TRACY_PORT'])\n")
    done = run_cli("profile", "-v", "-p", "23456", "port.py", cwd=work, env=tracy)
    assert "port 23456" in done.stderr


def test_another_program_takes_the_place(
    work: Path, run_cli: RunCli, tracy: dict[str, str]
) -> None:
    done = run_cli("profile", "sh", "-c", "echo $0 here; exit 5", "x y", cwd=work, env=tracy)
    assert done.returncode == 1
    log = (work / "results" / "perf" / "device_ops_perf_trace.log").read_text()
    assert "x y here" in log
