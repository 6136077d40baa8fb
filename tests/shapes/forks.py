"""An interpreter that has imported torch already, for the scripts of tests."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).resolve().parent


@contextlib.contextmanager
def interpreter_with_torch(folder: Path) -> Iterator[Path]:
    """``bin/python`` in `folder`, which hands scripts to a :mod:`.server` of its own."""
    # A socket's path is short by its nature.
    with tempfile.TemporaryDirectory(prefix="forks-") as short:
        address = f"{short}/socket"
        python = folder / "bin" / "python"
        lines = (
            f"#!{sys.executable} -SE",
            "import sys",
            f"sys.path.insert(0, {str(HERE)!r})",
            "import interpreter",
            f"interpreter.main({address!r})",
        )
        python.parent.mkdir()
        python.write_text("\n".join(lines) + "\n", encoding="utf-8")
        python.chmod(0o755)
        with subprocess.Popen(
            [sys.executable, str(HERE / "server.py"), address],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as server:
            assert server.stdout is not None
            assert server.stdout.readline() == "ready\n"
            yield python
            server.communicate()
