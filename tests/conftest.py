"""Shared fixtures: real git repositories in temporary folders, the command line as a subprocess."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests import forked
from tests.shapes.forks import interpreter_with_torch
from tests.waiting import HANG_S

ROOT = Path(__file__).resolve().parent.parent
STANDINS = ROOT / "tests" / "standins"
FIND_PYTHON = ROOT / ".ci" / "find-python"
EXPERIMENTS = ROOT / "fixtures" / "experiments"

# Read before the isolation below clears them.
XLA_PYTHON = os.environ.get("INSTRUMENT_TEST_XLA_PYTHON", "")
TTL_PYTHON = os.environ.get("INSTRUMENT_TEST_TTL_PYTHON", "")
TTNN_PYTHON = os.environ.get("INSTRUMENT_TEST_TTNN_PYTHON", "")
TTSIM_PYTHON = os.environ.get("INSTRUMENT_TEST_TTSIM_PYTHON", "")
TTSIM = os.environ.get("INSTRUMENT_TEST_TTSIM", "")  # the simulator's library
TTSIM_CACHE = os.environ.get("TT_METAL_CACHE", "")
WHY_NO_TTSIM = os.environ.get(
    "INSTRUMENT_TEST_WHY_TTSIM", "needs ttnn on a simulated Wormhole: make test-ttsim"
)
WHY_NO_XLA = os.environ.get("INSTRUMENT_TEST_WHY_XLA", "needs torch_xla: make test-xla")
WHY_NO_TTNN = os.environ.get(
    "INSTRUMENT_TEST_WHY_TTNN", "needs the tracy package of the ttnn wheel: make test-tracy"
)
WHY_NO_TTL = os.environ.get("INSTRUMENT_TEST_WHY_TTL", "needs tt-lang-sim: make test-ttl")
BROWSERS = ("chromium", "chromium-browser", "google-chrome")

# A busy machine makes any example slow.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

RepoFactory = Callable[..., Path]
RunCli = Callable[..., "subprocess.CompletedProcess[str]"]


def first_line(*arguments: str, cwd: Path) -> tuple[str, str]:
    """What `instrument ARGUMENTS | head -n 1` shows, and what the tool says on stderr.

    The tool has to end well although its reader has gone.
    """
    command = [sys.executable, "-m", "instrumentor", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, cwd=cwd, text=True) as tool:
        assert tool.stdout is not None and tool.stderr is not None
        line = subprocess.check_output(["head", "-n", "1"], stdin=tool.stdout, text=True)
        tool.stdout.close()
        said = tool.stderr.read()
    assert tool.returncode == 0
    return line, said


def browser() -> str | None:
    """Path of a Chromium-like browser, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="write what is produced now over the golden files in fixtures/passes; read the diff",
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Slow tests first: none is left when all others are done.

    Tests that need more than this machine has are skipped with the reason, never deselected.
    """
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)
    missing: dict[str, str] = {}
    if not XLA_PYTHON:
        missing["xla"] = WHY_NO_XLA
    if not TTL_PYTHON:
        missing["ttl"] = WHY_NO_TTL
    if not TTNN_PYTHON:
        missing["ttnn"] = WHY_NO_TTNN
    if not (TTSIM and TTSIM_PYTHON):
        missing["ttsim"] = WHY_NO_TTSIM
    if browser() is None:
        missing["browser"] = "needs Chromium on PATH (Debian: apt install chromium)"
    for item in items:
        for marker, reason in missing.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


def _hear_signals() -> None:
    """A suite started in the background ignores SIGINT, and so would every program it starts."""
    for number, usual in (
        (signal.SIGINT, signal.default_int_handler),
        (signal.SIGHUP, signal.SIG_DFL),
    ):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session", autouse=True)
def _isolated_session() -> Iterator[None]:
    """No test sees the user's git configuration, terminal or INSTRUMENT_ variables."""
    _hear_signals()
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("INSTRUMENT_", "GIT_", "TT_METAL_", "TRACY_")):
                patch.delenv(name)
        for name in ("PYTHONPATH", "VIRTUAL_ENV", "PJRT_DEVICE", "FORCE_COLOR", "WANDB_MODE"):
            patch.delenv(name, raising=False)
        patch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
        patch.setenv("GIT_CONFIG_NOSYSTEM", "1")
        patch.setenv("GIT_TERMINAL_PROMPT", "0")
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Test")
            patch.setenv(f"GIT_{role}_EMAIL", "test@example.invalid")
        patch.setenv("NO_COLOR", "1")
        # What other tests keep the machine busy with decides no test of `tune`.
        patch.setenv("INSTRUMENT_ALLOW_BUSY", "1")
        patch.setenv("COLUMNS", "100")
        patch.setenv("MPLBACKEND", "Agg")
        # Two test processes with as many threads as cores each would wait for one another.
        patch.setenv("OMP_NUM_THREADS", "1")
        yield


@pytest.fixture(autouse=True)
def _isolated_cache(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each test has a cache folder of its own; nothing is made until it is used."""
    cache = tmp_path_factory.getbasetemp() / "cache" / uuid.uuid4().hex[:12]
    monkeypatch.setenv("INSTRUMENT_CACHE", str(cache))
    # The history of runs, too.
    monkeypatch.setenv("XDG_DATA_HOME", str(cache.with_name(f"{cache.name}-data")))


def git(repo: Path, *arguments: str) -> str:
    """Runs git in a repository; returns its output, raises CalledProcessError on failure."""
    done = subprocess.run(["git", *arguments], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout


def _commit_all(repo: Path) -> None:
    git(repo, "init", "--quiet", "--initial-branch=main")
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--message", "Start")


@pytest.fixture
def git_repo(tmp_path: Path) -> RepoFactory:
    """Factory of real repositories: ``git_repo({"train.py": source}, name="repo", commit=True)``.

    Text is written as UTF-8 with the newlines it has; bytes as they are.
    """

    def make(files: Mapping[str, str | bytes], name: str = "repo", commit: bool = True) -> Path:
        repo = tmp_path / name
        repo.mkdir(parents=True)
        for relative, content in files.items():
            path = repo / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)
        if commit:
            _commit_all(repo)
        else:
            git(repo, "init", "--quiet", "--initial-branch=main")
        return repo

    return make


def _copy_experiments(destination: Path) -> Path:
    ignored = shutil.ignore_patterns("__pycache__", "checkpoints", "*_baseline*")
    shutil.copytree(EXPERIMENTS, destination, ignore=ignored)
    _commit_all(destination)
    return destination


@pytest.fixture(scope="session")
def experiments_repo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """fixtures/experiments in a git repository of its own, shared: leave it as it is."""
    repo = _copy_experiments(tmp_path_factory.mktemp("shared") / "experiments")
    yield repo
    assert git(repo, "status", "--porcelain", "--untracked-files=no") == ""


@pytest.fixture
def own_experiments_repo(tmp_path: Path) -> Path:
    """Like experiments_repo, for a test that changes files in it."""
    return _copy_experiments(tmp_path / "experiments")


@pytest.fixture
def no_hang() -> Iterator[None]:
    """A test that waits without end fails, which no busy machine does; for tests of what waits."""

    def fail(number: int, frame: object) -> None:
        raise AssertionError("waits without end")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(int(HANG_S / 2))
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session")
def tool_server() -> forked.ForkServerContext:
    """What starts the command line without importing it anew."""
    return forked.server()


@pytest.fixture
def run_cli(tool_server: forked.ForkServerContext) -> RunCli:
    """Runs ``python -m instrumentor ARGS`` and returns the finished process, whatever its code.

    ``env`` is added to the environment; ``timeout`` is in seconds. It is ``fresh`` when an
    interpreter of its own is started for it; else ``first`` is done in its process before.
    """

    def run(
        *arguments: str | Path,
        cwd: Path,
        env: Mapping[str, str] | None = None,
        timeout: float = HANG_S,
        fresh: bool = False,
        first: Callable[[], None] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        words, environment = [*map(str, arguments)], {**os.environ, **(env or {})}
        if not fresh:
            return forked.run(tool_server, words, cwd, environment, timeout, first)
        return subprocess.run(
            [sys.executable, "-m", "instrumentor", *words],
            cwd=cwd,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


@pytest.fixture(scope="session")
def torch_python(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An interpreter for scripts that has torch imported already."""
    pytest.importorskip("torch", reason="needs torch: make test installs it")
    with interpreter_with_torch(tmp_path_factory.mktemp("forks")) as python:
        yield python


@pytest.fixture
def device(tmp_path: Path) -> Path:
    """A folder that holds a device node, as far as the tool looks."""
    folder = tmp_path / "devices"
    folder.mkdir()
    (folder / "0").touch()
    return folder


@pytest.fixture
def tracy(device: Path) -> dict[str, str]:
    """Environment with the stand-in of Tracy, its programs and a device."""
    return {
        "PYTHONPATH": str(STANDINS),
        "INSTRUMENT_DEVICE_ROOT": str(device),
        "INSTRUMENT_TRACY_TOOLS_FOLDER": str(STANDINS / "tools-tracy"),
    }


@pytest.fixture(scope="session", params=["this", "3.8", "3.9"])
def interpreter(request: pytest.FixtureRequest) -> Path:
    """The interpreter of the tests, and the oldest ones that scripts may run under."""
    if request.param == "this":
        return Path(sys.executable)
    found = subprocess.run(
        [FIND_PYTHON, request.param], capture_output=True, text=True, check=False
    )
    if found.returncode != 0:
        pytest.skip(f"no CPython {request.param} on this machine")
    return Path(found.stdout.strip())


@pytest.fixture(scope="session")
def xla_python() -> Path:
    """Interpreter with torch_xla; for tests marked xla."""
    return Path(XLA_PYTHON)


@pytest.fixture(scope="session")
def ttl_python() -> Path:
    """Interpreter with tt-lang's simulator; for tests marked ttl."""
    return Path(TTL_PYTHON)


@pytest.fixture(scope="session")
def ttnn_python() -> Path:
    """Interpreter with the real tracy package; for tests marked ttnn."""
    return Path(TTNN_PYTHON)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Path of the browser; for tests marked browser."""
    found = browser()
    assert found is not None
    return found
