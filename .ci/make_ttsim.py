"""Makes .venv-ttsim: ttnn, its compiler and a simulated Wormhole, from folders that are at hand.

Run by the CPython 3.12 that the environment shall have. Nothing is downloaded: it takes a folder of
wheels (ttnn, torch and what they require), one of the sfpi compiler, and one of ttsim's sources.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / ".venv-ttsim"
LIBRARY = FOLDER / "simulator" / "libttsim_wh.so"
BUILT = Path("src") / "_out" / "release_wh" / "libttsim.so"
# Tracy's report fails with pandas 3, and imports websockets.
REQUIREMENTS = ("ttnn==0.81.1", "torch", "pandas<3", "websockets")
HINT = "make venv-ttsim WHEELS=FOLDER SFPI=FOLDER TTSIM=FOLDER (docs/contributing.md)"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--wheels", default="", help="folder of wheels for CPython 3.12")
    parser.add_argument("--sfpi", default="", help="folder of the sfpi compiler, with compiler/bin")
    parser.add_argument("--ttsim", default="", help="folder of ttsim's sources, with make.py")
    options = parser.parse_args()
    if _ready():
        return 0
    wheels = _folder("WHEELS", options.wheels, "ttnn-*.whl")
    sfpi = _folder("SFPI", options.sfpi, "compiler/bin")
    ttsim = _folder("TTSIM", options.ttsim, "make.py")
    if sys.version_info[:2] != (3, 12):
        _stop(f".venv-ttsim needs CPython 3.12; {sys.executable} is another.")
    _run(sys.executable, "-m", "venv", "--clear", str(FOLDER))
    _run(
        str(_python()),
        *("-m", "pip", "install", "--no-index", "--find-links", str(wheels)),
        *REQUIREMENTS,
    )
    package = next(FOLDER.glob("lib/python3*/site-packages/ttnn"))
    if not (package / "runtime" / "sfpi").exists():
        (package / "runtime" / "sfpi").symlink_to(sfpi, target_is_directory=True)
    _build(ttsim, package)
    print(f"{FOLDER.name} is ready", flush=True)
    return 0


def _build(sources: Path, package: Path) -> None:
    """The simulator's library, and beside it the chip that it simulates."""
    copy = FOLDER / "ttsim"
    shutil.copytree(sources, copy, ignore=shutil.ignore_patterns(".git", "_out"))
    _run(sys.executable, "make.py", str(BUILT), cwd=copy)
    LIBRARY.parent.mkdir()
    descriptor = package / "tt_metal" / "soc_descriptors" / "wormhole_b0_80_arch.yaml"
    shutil.copy(descriptor, LIBRARY.parent / "soc_descriptor.yaml")
    shutil.copy(copy / BUILT, LIBRARY)


def _python() -> Path:
    return FOLDER / "bin" / "python"


def _ready() -> bool:
    return LIBRARY.is_file() and _python().is_file()


def _folder(name: str, given: str, holds: str) -> Path:
    if not given:
        _stop(f"{FOLDER.name} is not there, and {name} names no folder to make it from.", HINT)
    folder = Path(given).resolve()
    if not any(folder.glob(holds)):
        _stop(f"{name}={given}: no {holds} in it.", HINT)
    return folder


def _run(*command: str, cwd: Path | None = None) -> None:
    if subprocess.run(command, check=False, cwd=cwd).returncode != 0:
        _stop(f"{' '.join(command)} failed, see above.")


def _stop(message: str, hint: str = "") -> None:
    print(message, file=sys.stderr)
    if hint:
        print(hint, file=sys.stderr)
    raise SystemExit(4)


if __name__ == "__main__":
    sys.exit(main())
