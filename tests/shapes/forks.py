"""The fork server from the side of the tests: runs command lines and scripts, and their outcome."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.shapes.interpreter import order

HERE = Path(__file__).resolve().parent
STANDINS = HERE.parent / "standins"


@dataclass(frozen=True)
class Done:
    """A finished command or script: exit code, what it printed, what was observed in it."""

    code: int
    output: str
    observed: Mapping[str, Any] | None


class Forks:
    """A server and the interpreter that hands scripts to it."""

    def __init__(self, folder: Path) -> None:
        # A socket's path is short by its nature.
        self._short = tempfile.TemporaryDirectory(prefix="forks-")
        self._address = f"{self._short.name}/socket"
        self.python = folder / "python"
        lines = (
            f"#!{sys.executable} -SE",
            "import sys",
            f"sys.path.insert(0, {str(HERE)!r})",
            "import interpreter",
            f"interpreter.main({self._address!r})",
        )
        self.python.write_text("\n".join(lines) + "\n", encoding="utf-8")
        self.python.chmod(0o755)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("INSTRUMENT_")}
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), self._address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, "OMP_NUM_THREADS": "1"},
            text=True,
        )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == "ready\n"

    def tool(
        self, *arguments: str, cwd: Path, observed: Path | None = None, seeded: str = ""
    ) -> Done:
        """Run ``instrument ARGUMENTS``, its plan with a mistake of :mod:`tests.shapes.seeding`."""
        return self._order("tool", list(arguments), cwd, observed, {"SEEDED": seeded})

    def script(self, *arguments: str, cwd: Path, observed: Path) -> Done:
        """Run ``python ARGUMENTS`` without the tool."""
        return self._order("script", list(arguments), cwd, observed)

    def _order(
        self,
        kind: str,
        argv: list[str],
        cwd: Path,
        observed: Path | None,
        further: Mapping[str, str] | None = None,
    ) -> Done:
        own = {
            "PYTHONPATH": f"{STANDINS / 'shapes'}:{STANDINS / 'accelerate'}",
            "OBSERVED": str(observed or ""),
        }
        environment = {**os.environ, **own, **(further or {})}
        with tempfile.TemporaryFile() as output, Path(os.devnull).open() as nothing:
            streams = [nothing.fileno(), output.fileno(), output.fileno()]
            code = order(self._address, kind, argv, str(cwd), environment, streams)
            output.seek(0)
            text = output.read().decode("utf-8", "replace")
        seen = json.loads(observed.read_text()) if observed and observed.exists() else None
        return Done(code, text, seen)

    def close(self) -> None:
        """End the server."""
        self._server.communicate()
        self._short.cleanup()
