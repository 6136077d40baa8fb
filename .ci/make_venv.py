"""Makes one of the project's virtual environments, or finds it ready and says nothing.

Run by the interpreter that the environment shall have, before anything is installed: standard
library only. It looks before it leaps: the interpreter's version, venv and ensurepip, free disk
space, and what pip would download are checked and stated first.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STAMP = "instrumentor-ready"
CPU_INDEX = "--extra-index-url https://download.pytorch.org/whl/cpu"
INDEX_HINT = (
    "Options for pip go in PIP_ARGS (another index: --index-url URL, or PIP_INDEX_URL), another "
    "torch in TORCH."
)


@dataclass(frozen=True)
class Environment:
    """One environment: what goes in, and what that costs (GB, measured on x86-64 Linux)."""

    folder: str
    pythons: tuple[str, ...]
    requirements: tuple[str, ...]
    download_gb: float
    disk_gb: float
    cuda_download_gb: float = 0.0
    cuda_disk_gb: float = 0.0
    sources: tuple[str, ...] = field(default=())


def environments(torch: str) -> dict[str, Environment]:
    return {
        "tool": Environment(
            folder=".venv",
            pythons=("3.10", "3.11", "3.12", "3.13"),
            requirements=("-e", f"{ROOT}[test]", torch),
            download_gb=0.4,
            disk_gb=1.5,
            cuda_download_gb=2.9,
            cuda_disk_gb=5.5,
            sources=("pyproject.toml",),
        ),
        "xla": Environment(
            folder=".venv-xla",
            pythons=("3.11",),
            requirements=("torch==2.9.0", "torch_xla==2.9.0", "numpy", "pyyaml"),
            download_gb=0.5,
            disk_gb=2.5,
            cuda_download_gb=3.2,
            cuda_disk_gb=7.5,
        ),
        "ttl": Environment(
            folder=".venv-ttl",
            pythons=("3.11", "3.12", "3.13"),
            # torch is named, so that it is the build that the other options ask for
            requirements=("tt-lang-sim==1.1.6", torch),
            download_gb=0.3,
            disk_gb=1.0,
            cuda_download_gb=2.9,
            cuda_disk_gb=5.5,
        ),
        "ttnn": Environment(
            folder=".venv-ttnn",
            pythons=("3.12", "3.10"),
            # tracy imports websockets, which the wheel does not ask for
            requirements=("ttnn==0.81.1", "websockets"),
            download_gb=0.2,
            disk_gb=1.0,
        ),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=["tool", "xla", "ttl", "ttnn"])
    parser.add_argument("--torch", default="torch", help="requirement for torch")
    parser.add_argument("--pip-args", default="", help="further options of pip install")
    options = parser.parse_args()

    environment = environments(options.torch)[options.name]
    pip_args = tuple(shlex.split(options.pip_args))
    folder = ROOT / environment.folder
    stamp = folder / STAMP
    fingerprint = _fingerprint(environment, pip_args)
    if stamp.is_file() and stamp.read_text() == fingerprint and _starts(_python(folder)):
        return 0

    _check_interpreter(environment)
    _check_disk(folder, environment.disk_gb, environment.folder)
    if not _starts(_python(folder)):
        print(f"Making {environment.folder} with {sys.executable}", flush=True)
        _run(sys.executable, "-m", "venv", "--clear", str(folder))
    _pip(folder, "--upgrade", "pip", *pip_args)
    cuda = _announce(environment, folder, pip_args)
    _check_disk(folder, environment.cuda_disk_gb if cuda else environment.disk_gb, str(folder))
    print(f"Installing into {environment.folder}: some minutes without a word", flush=True)
    _pip(folder, *environment.requirements, *pip_args)
    stamp.write_text(fingerprint)
    print(f"{environment.folder} is ready", flush=True)
    return 0


def _fingerprint(environment: Environment, pip_args: tuple[str, ...]) -> str:
    digest = hashlib.sha256(repr((environment, pip_args)).encode())
    for name in environment.sources:
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


def _check_interpreter(environment: Environment) -> None:
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    if version not in environment.pythons:
        wanted = ", ".join(environment.pythons)
        _stop(f"{environment.folder} needs CPython {wanted}; {sys.executable} is {version}.")
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError as error:
        _stop(
            f"{sys.executable} cannot make virtual environments ({error}).",
            f"On Debian and Ubuntu: apt install python{version}-venv; "
            "or name another interpreter: make PYTHON=/path/to/python",
        )


def _check_disk(folder: Path, needed_gb: float, what: str) -> None:
    for place in (folder.parent, Path(tempfile.gettempdir())):
        free_gb = shutil.disk_usage(place).free / 1e9
        if free_gb < needed_gb:
            _stop(
                f"{what} takes about {needed_gb:.1f} GB of disk; {place} has {free_gb:.1f} GB.",
                "Free some space, or let TMPDIR name a larger folder for pip's temporary files.",
            )


def _announce(environment: Environment, folder: Path, pip_args: tuple[str, ...]) -> bool:
    """States what will be downloaded; True when CUDA packages are among it.

    An index without metadata of its own makes pip download the wheels for this already; it keeps
    them for the installation.
    """
    others = [item for item in environment.requirements if "torch" in item or "ttnn" in item]
    print(f"Asking the package index for {' '.join(others)}", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        done = _pip_process(folder, "--dry-run", "--report", str(report), *others, *pip_args)
        if done.returncode != 0:
            _stop(f"pip cannot find {' '.join(others)}, see above.", INDEX_HINT)
        planned = json.loads(report.read_text(encoding="utf-8"))["install"]
    names = {str(item["metadata"]["name"]).lower() for item in planned}
    cuda = any(name.startswith("nvidia-") for name in names)
    if cuda and environment.cuda_disk_gb:
        print(
            f"Downloading about {environment.cuda_download_gb:.1f} GB into {environment.folder} "
            f"({environment.cuda_disk_gb:.1f} GB on disk): the torch of this package index brings "
            f"its CUDA packages.\nFor a CPU build of about {environment.download_gb:.1f} GB: "
            f'make PIP_ARGS="{CPU_INDEX}"',
            flush=True,
        )
    elif names & {"torch", "ttnn"}:
        print(
            f"Downloading about {environment.download_gb:.1f} GB into {environment.folder} "
            f"({environment.disk_gb:.1f} GB on disk)",
            flush=True,
        )
    return cuda


def _pip(folder: Path, *arguments: str) -> None:
    if _pip_process(folder, *arguments).returncode != 0:
        _stop("pip failed, see above.", INDEX_HINT)


def _pip_process(folder: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """What pip does is announced by us; of pip itself, what went wrong is heard."""
    command = [str(_python(folder)), "-m", "pip", "install", "--quiet", *arguments]
    environment = {"PIP_DISABLE_PIP_VERSION_CHECK": "1", **os.environ}
    return subprocess.run(command, env=environment, check=False, cwd=ROOT)


def _run(*command: str) -> None:
    if subprocess.run(command, check=False).returncode != 0:
        _stop(f"{' '.join(command)} failed, see above.")


def _python(folder: Path) -> Path:
    return folder / "bin" / "python"


def _starts(python: Path) -> bool:
    if not python.is_file():
        return False
    return subprocess.run([str(python), "-c", ""], check=False).returncode == 0


def _stop(message: str, hint: str = "") -> None:
    print(message, file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    raise SystemExit(4)


if __name__ == "__main__":
    sys.exit(main())
