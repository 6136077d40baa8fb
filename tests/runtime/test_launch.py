"""A script started by the launcher must not notice the difference to ``python SCRIPT ARGS``."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from instrumentor.run.profilers.base import RUNTIME

REPORT = """\
import json, multiprocessing.process, os, sys
json.dump({"name": __name__, "file": __file__, "argv": sys.argv, "path": sys.path[0],
           "main": sys.modules["__main__"].__dict__ is globals(), "spec": __spec__,
           "cached": __cached__, "package": __package__, "doc": __doc__,
           "folders": sys.path, "cwd": os.getcwd(),
           "started": multiprocessing.process.ORIGINAL_DIR,
           "env": [os.environ.get(name) for name in ("PYTHONPATH", "PWD")]}, sys.stdout)
"""


@dataclass
class Ran:
    returncode: int
    stdout: str
    stderr: str
    outcome: dict[str, object]


class Launcher:
    """Starts a script as Tracy would: the launcher is executed by another program's main.

    That program works in a folder of its own, and has already imported what remembers its folder.
    """

    WRAPPER = (
        "import multiprocessing.process, os, sys\n"
        "sys.path[0] = os.getcwd()\n"  # as `python -m` has it
        "sys.argv[:] = sys.argv[1:]\n"
        "sys.path.insert(0, {folder!r})\n"
        "exec(compile(open({launcher!r}).read(), {launcher!r}, 'exec'),"
        " {{'__name__': '__main__', '__file__': {launcher!r}}})\n"
        "print('wrapper goes on')\n"
    )

    def __init__(self, folder: Path, interpreter: Path) -> None:
        self.folder = folder / "scratch"
        (self.folder / "work").mkdir(parents=True)
        shutil.copyfile(RUNTIME / "launch.py", self.folder / "launch.py")
        self.interpreter = interpreter
        self.cwd = folder

    def run(self, script: Path, *arguments: str, env: dict[str, str] | None = None) -> Ran:
        return self.order({"script": str(script), "arguments": arguments}, env)

    def order(self, what: dict[str, object], env: dict[str, str] | None = None) -> Ran:
        own = {**os.environ, **(env or {})}
        order = {
            **what,
            "cwd": str(self.cwd),
            "environment": {name: own.get(name) for name in ("PYTHONPATH", "PWD")},
        }
        (self.folder / "launch.json").write_text(json.dumps(order))
        launcher = str(self.folder / "launch.py")
        wrapper = self.WRAPPER.format(folder=str(self.folder), launcher=launcher)
        done = subprocess.run(
            [self.interpreter, "-c", wrapper, launcher],
            cwd=self.folder / "work",
            env={**own, "PWD": "/of/the/wrapper"},
            capture_output=True,
            text=True,
            check=False,
        )
        outcome = self.folder / "outcome.json"
        told = json.loads(outcome.read_text()) if outcome.exists() else {}
        return Ran(done.returncode, done.stdout, done.stderr, told)


@pytest.fixture
def launcher(tmp_path: Path, interpreter: Path) -> Launcher:
    return Launcher(tmp_path, interpreter)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "my project"
    folder.mkdir()
    return folder / "train it.py"


def test_sees_what_a_plain_start_shows(launcher: Launcher, script: Path) -> None:
    script.write_text('"""Doc."""\n' + REPORT)
    arguments = ["--config", "a b.yaml", "it's", '"', "$(exit 3)", ";", "*", "new\nline", ""]
    ran = launcher.run(script, *arguments)
    seen = json.loads(ran.stdout.partition("wrapper")[0])
    plain = subprocess.run(
        [launcher.interpreter, script, *arguments],
        cwd=launcher.cwd,
        capture_output=True,
        text=True,
        check=True,
    )
    expected = json.loads(plain.stdout)
    assert seen == expected
    assert seen["argv"] == [str(script), *arguments]
    assert ran.outcome == {"exit_code": 0, "exception": None}
    assert "wrapper goes on" in ran.stdout


def test_keeps_a_working_directory_that_was_asked_for(launcher: Launcher, script: Path) -> None:
    script.write_text(REPORT)
    ran = launcher.run(script, env={"PYTHONPATH": str(launcher.cwd)})
    assert str(launcher.cwd) in json.loads(ran.stdout.partition("wrapper")[0])["folders"]


def test_pickles_and_spawns_what_the_script_defines(launcher: Launcher, script: Path) -> None:
    script.write_text(
        "import multiprocessing, pickle\n"
        "class Thing: pass\n"
        "def square(x): return x * x\n"
        "if __name__ == '__main__':\n"
        "    pickle.loads(pickle.dumps(Thing()))\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(square, [2, 3]))\n"
    )
    ran = launcher.run(script)
    assert "[4, 9]" in ran.stdout, ran.stderr


@pytest.mark.parametrize(
    ("source", "code", "exception"),
    [
        ("raise SystemExit(7)", 7, "SystemExit"),
        ("import sys; sys.exit()", 0, "SystemExit"),
        ("raise SystemExit('a reason')", 1, "SystemExit"),
        ("raise SystemExit(-1)", 255, "SystemExit"),
        ("raise SystemExit(258)", 2, "SystemExit"),
        ("raise GeneratorExit", 1, "GeneratorExit"),
        ("raise ValueError('no')", 1, "ValueError"),
        ("x = = 1", 1, "SyntaxError"),
    ],
)
def test_notes_the_scripts_own_exit_code(
    launcher: Launcher, script: Path, source: str, code: int, exception: str
) -> None:
    script.write_text(source)
    ran = launcher.run(script)
    assert ran.outcome == {"exit_code": code, "exception": exception}
    assert ran.returncode == code


SAYS = "import sys; print(sys.argv, __name__, '__file__' in globals(), sys.path[0])"


def test_runs_code_and_modules_as_python_would(launcher: Launcher, script: Path) -> None:
    done = launcher.order({"code": SAYS, "arguments": ["a"]})
    assert done.stdout.startswith("['-c', 'a'] __main__ False \n"), done.stderr
    (launcher.cwd / "says.py").write_text(SAYS)
    done = launcher.order({"module": "says", "arguments": ["a"]})
    where = launcher.cwd / "says.py"
    assert done.stdout.startswith(f"['{where}', 'a'] __main__ True {launcher.cwd}\n"), done.stderr


def test_another_program_takes_the_process(launcher: Launcher) -> None:
    done = launcher.order({"program": "echo", "arguments": ["a b", "c"]})
    assert (done.stdout, done.returncode) == ("a b c\n", 0)


def test_the_name_as_it_was_typed(launcher: Launcher, script: Path) -> None:
    script.write_text("import sys; print(sys.argv, __file__)")
    done = launcher.order({"script": str(script), "arguments": [], "typed": "exp/x.py"})
    assert done.stdout.startswith(f"['exp/x.py'] {script}\n")


def test_counts_the_processes_of_the_script(launcher: Launcher, script: Path) -> None:
    script.write_text(
        "import multiprocessing\nif __name__ == '__main__':\n"
        "    for _ in range(2):\n        process = multiprocessing.Process(target=print)\n"
        "        process.start()\n        process.join()\n"
    )
    assert launcher.run(script).outcome == {"exit_code": 0, "exception": None, "workers": 2}


def test_an_interrupted_script_lets_the_wrapper_make_its_report(
    launcher: Launcher, script: Path
) -> None:
    script.write_text("raise KeyboardInterrupt")
    ran = launcher.run(script)
    assert ran.outcome == {"exit_code": 130, "exception": "KeyboardInterrupt"}
    assert ran.returncode == 0
    assert ran.stderr == "KeyboardInterrupt: the script was interrupted\n"
    assert "wrapper goes on" in ran.stdout


def test_reads_the_scripts_declared_encoding(launcher: Launcher, script: Path) -> None:
    script.write_bytes("# -*- coding: latin-1 -*-\nprint(ascii('é'))\n".encode("latin-1"))
    assert "'\\xe9'" in launcher.run(script).stdout


def test_what_was_said_before_another_program_begins_is_not_lost(launcher: Launcher) -> None:
    launcher.WRAPPER = "print('first')\n" + launcher.WRAPPER
    assert launcher.order({"program": "echo", "arguments": ["a"]}).stdout == "first\na\n"


def test_a_safe_path_stays_safe(launcher: Launcher, script: Path) -> None:
    script.write_text(f"import sys; print({str(script.parent)!r} in sys.path)")
    ran = launcher.run(script, env={"PYTHONSAFEPATH": "1"})
    plain = subprocess.run(
        [launcher.interpreter, script],
        cwd=launcher.cwd,
        env={**os.environ, "PYTHONSAFEPATH": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert ran.stdout.splitlines()[0] == plain.stdout.strip()


def test_a_watcher_sees_the_script_before_it_runs(launcher: Launcher, script: Path) -> None:
    watcher = launcher.folder / "watcher.py"
    watcher.write_text("def observe(what): print('watching', what)\n")
    script.write_text("import sys; print('runs', sys.modules['watcher'].__file__)")
    what = {"script": str(script), "arguments": [], "observe": "it", "observer": str(watcher)}
    assert launcher.order(what).stdout.startswith(f"watching it\nruns {watcher}\n")


def test_a_variable_that_the_script_does_not_have_is_not_set(
    launcher: Launcher, script: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PWD", raising=False)
    script.write_text("import os; print(os.environ.get('PWD', 'none'))")
    assert launcher.run(script).stdout.startswith("none\n")


def test_notes_are_never_seen_half(launcher: Launcher, script: Path) -> None:
    script.write_text("")
    launcher.run(script)
    assert sorted(path.name for path in launcher.folder.iterdir()) == [
        "launch.json", "launch.pid", "launch.py", "outcome.json", "work",
    ]  # fmt: skip
