"""Rewriting files on disk, and the way back from the copy's lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from instrumentor.kernels.options import Choice
from instrumentor.kernels.prepare import prepare_kernel
from instrumentor.rewrite import source_map
from instrumentor.rewrite.engine import strip
from instrumentor.rewrite.source_map import SourceMap, original_lines
from instrumentor.shared.errors import UsageError
from tests.kernels.scripts import KERNEL


def test_every_line_of_the_original_is_found_again(tmp_path: Path) -> None:
    script = tmp_path / "k.py"
    source = KERNEL + "x = 1\nk(\n    1,\n    2,\n)\ny = 2\n"
    script.write_text(source)
    code = prepare_kernel(script, Choice()).replacements[script]
    assert strip(code) == source.encode()
    mapped = original_lines(code)
    lines = code.decode().splitlines()
    original = source.splitlines()
    for new, old in mapped.items():
        line = lines[new - 1]
        if "# [instrument]" not in line:
            assert line == original[old - 1]
    assert set(mapped.values()) == set(range(1, len(original) + 1))
    assert mapped[lines.index("y = 2") + 1] == original.index("y = 2") + 1


def test_a_replaced_call_counts_as_the_original_line() -> None:
    code = b"a\n# [instrument] off| k(1)\n_gate.at(1, k)(1)  # [instrument]\nx  # [instrument]\nb\n"
    assert original_lines(code) == {1: 1, 2: 2, 3: 2, 4: 2, 5: 3}


def test_places_in_the_copy_are_told_as_the_users_own() -> None:
    code = b"a\n# [instrument] off| k(1)\n_gate.at(1, k)(1)  # [instrument]\nb\n"
    way = SourceMap(Path("/copy"), Path("/home"), {Path("/home/k.py"): code})
    said = "asked for at /copy/k.py:4, /copy/other.py:7 and (/lib/ttl/sim.py:9)"
    assert way.places(said) == "asked for at /home/k.py:3, /home/other.py:7 and (/lib/ttl/sim.py:9)"
    assert way.traceback(f"ValueError: {said}") == f"ValueError: {way.places(said)}"


def test_of_a_traceback_the_users_own_frames_are_shown() -> None:
    code = b"import ttl\n# [instrument] off| k(1)\n_gate.at(1, k)(1)  # [instrument]\n"
    way = SourceMap(Path("/copy"), Path("/home"), {Path("/home/k.py"): code})
    runtime = Path(source_map.__file__).parent.parent / "runtime" / "kernel_simulation.py"
    raised = f"""\
Traceback (most recent call last):
  File "{runtime}", line 385, in run_file
    runpy.run_path(script, run_name="__main__")
  File "<frozen runpy>", line 88, in _run_code
  File "/copy/k.py", line 3, in <module>
    _gate.at(1, k)(1)  # [instrument]
    ^^^^^^^^^^^^^^^^^
  File "/lib/ttl/sim/program.py", line 144, in __call__
    self.run()
ValueError: wrong"""
    assert (
        way.traceback(raised)
        == """\
Traceback (most recent call last):
  File "/home/k.py", line 2, in <module>
  File "/lib/ttl/sim/program.py", line 144, in __call__
    self.run()
ValueError: wrong"""
    )


def test_what_is_no_script(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        prepare_kernel(tmp_path / "none.py", Choice())


def test_an_instrumented_script_is_refused(tmp_path: Path) -> None:
    script = tmp_path / "k.py"
    script.write_text(KERNEL + "k(1, 2)\n")
    script.write_bytes(prepare_kernel(script, Choice()).replacements[script])
    with pytest.raises(UsageError, match="already instrumented"):
        prepare_kernel(script, Choice())
