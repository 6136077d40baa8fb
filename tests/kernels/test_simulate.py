"""Kernels on tt-lang's own simulator: what it counts, and each seeded fault by its name."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from instrumentor.kernels.iterate import Iteration
from instrumentor.kernels.options import Choice, Criteria, KernelOptions, Simulated
from instrumentor.kernels.prepare import explain_kernel
from instrumentor.kernels.run import KernelRun, run_kernel
from instrumentor.kernels.simulate import NotSimulated
from instrumentor.machine.environment import examine
from instrumentor.shared.errors import InstrumentError, NotReady, RunFailed
from instrumentor_analysis.kernels.simulated_report import SimulatedReport
from tests.conftest import RepoFactory, RunCli
from tests.kernels.scripts import FIXTURES
from tests.waiting import HANG_S

pytestmark = pytest.mark.ttl

KERNEL = "multiply_add.py"


class Here:
    """A repository with the kernel, and the interpreter that has the simulator."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder = folder
        self.options = KernelOptions(
            python=str(python),
            cwd=folder,
            env={**os.environ, "INSTRUMENT_DEVICE_ROOT": str(folder / "none")},
            simulated=Simulated(simulate=True),
        )

    def simulate(self, name: str = KERNEL, **options: object) -> KernelRun:
        return run_kernel(name, (), dataclasses.replace(self.options, **options))  # type: ignore[arg-type]

    def seeded(self, before: str, after: str, count: int = 1) -> KernelRun:
        """The run of a kernel with a fault; of one that fails, what was counted until then."""
        self.edit(before, after, count)
        try:
            return self.simulate()
        except RunFailed as error:
            assert isinstance(error.result, KernelRun)
            return error.result

    def edit(self, before: str, after: str, count: int = 1) -> None:
        path = self.folder / KERNEL
        text = path.read_text()
        assert before in text
        path.write_text(text.replace(before, after, count))


@pytest.fixture
def here(git_repo: RepoFactory, ttl_python: Path) -> Here:
    files = {path.name: path.read_bytes() for path in FIXTURES.glob("*.py")}
    return Here(git_repo(files, "kernels"), ttl_python)


def report_of(run: KernelRun) -> SimulatedReport:
    assert isinstance(run.report, SimulatedReport)
    return run.report


def line_of(words: str) -> int:
    lines = (FIXTURES / KERNEL).read_text().splitlines()
    return next(n for n, line in enumerate(lines, 1) if words in line)


def test_what_goes_wrong_behind_the_kernel_tells_nothing_of_its_result(here: Here) -> None:
    here.edit('Path("y.csv")', 'ttnn.upsample\n    Path("y.csv")')
    with pytest.raises(RunFailed, match=r"does not know ttnn\.upsample") as caught:
        here.simulate()
    assert isinstance(caught.value.result, KernelRun)
    assert caught.value.result.verdict is None


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        (
            "y_block.store(",
            "call_extern_func('f.hpp', 'f')\n{20}y_block.store(",
            "call_extern_func",
        ),
        ("@ttl.operation", "@ttl.kernel", "ttl.kernel"),
        ("y_block.store(", "ttl.math.nought(", "ttl.math.nought ("),
        (
            "y_block.store(",
            "ttl.math.broadcast(",
            "ttl.math.broadcast (it has ttl.block.broadcast)",
        ),
        ("import ttl\n", "import ttl\nfrom ttl.testing import check\n", "the module ttl.testing"),
        ("import ttl\n", "import ttl\nfrom ttl.sim.dfb import Pipe\n", "Pipe of ttl.sim.dfb"),
        ("ttnn.open_device(", "ttnn.open_device(l1_small_size=1, ", "open_device() got an"),
    ],
)
def test_what_the_simulator_does_not_have_says_nothing_against_the_kernel(
    here: Here, before: str, after: str, what: str
) -> None:
    here.edit(before, after.replace("{20}", 20 * " "))
    with pytest.raises(NotSimulated, match=re.escape(what)) as caught:
        here.simulate()
    assert f"({KERNEL}:" in caught.value.message and "kernel may be right" in caught.value.hint
    partial = caught.value.result
    if partial is not None:
        assert [each.kind for each in partial.report.found] == ["simulator-lacks"]


def test_what_the_simulator_says_of_a_line_is_said_of_the_users_own(here: Here) -> None:
    here.edit("a_copy.wait()", "a_block.store(b_block)\n                    a_copy.wait()")
    with pytest.raises(RunFailed) as caught:
        here.simulate()
    assert f"{KERNEL}:{line_of('a_copy = ttl.copy')}" in caught.value.message
    assert "shadows" not in caught.value.message


def test_a_right_kernel_is_counted_by_the_names_of_its_source(here: Here) -> None:
    run = here.simulate()
    counted, document = report_of(run).simulation, report_of(run).to_json()
    assert run.script_exit_code == 0 and run.valid and counted.complete
    assert list(counted.buffers) == ["a_dfb", "b_dfb", "c_dfb", "y_dfb"]
    moved = {(row["tensor"], row["direction"]): row["times"] for row in document["moved"]}
    assert moved == {("a", "read"): 1, ("b", "read"): 1, ("c", "read"): 1, ("y", "write"): 1}
    assert document["wall_time_us"] is None and counted.grid == (4, 1) and not counted.idle
    assert counted.dram_bytes == 4 * 256 * 256 * 2
    assert run.users_files.fate == "your files were not touched"


@pytest.mark.parametrize(
    ("before", "after", "count", "kind", "words"),
    [
        pytest.param(
            "for index in range(blocks_per_node):\n            if",
            "for index in range(blocks_per_node + 1):\n            if True or",
            1,
            "deadlock",
            "compute waits for a block of a_dfb",
            id="a loop of compute that is too long",
        ),
        pytest.param(
            "for index in range(blocks_per_node):\n            block",
            "for index in range(blocks_per_node - 1):\n            block",
            2,
            "deadlock",
            "compute waits for a block of a_dfb",
            id="loops of read and write that are too short",
        ),
        pytest.param(
            "if block < blocks:\n                row, column = block // columns * BLOCK, block % "
            "columns * BLOCK\n                rows, cols = slice(row, row + BLOCK), slice(column, "
            "column + BLOCK)\n                with y",
            "if block < blocks - 1:\n                row, column = block // columns * BLOCK, block "
            "% columns * BLOCK\n                rows, cols = slice(row, row + BLOCK), slice(column"
            ", column + BLOCK)\n                with y",
            1,
            "partly-written",
            "y is written only in part: 60 of 64 tiles",
            id="the last block is not written",
        ),
        pytest.param(
            "with y_dfb.wait() as y_block:\n                    y_copy = ttl.copy(y_block, "
            "y[rows, cols])\n                    y_copy.wait()",
            "y_block = y_dfb.wait()\n                y_copy = ttl.copy(y_block, y[rows, cols])\n"
            "                y_copy.wait()",
            1,
            "implied-pop",
            "write does not pop y_dfb",
            id="a missing pop",
        ),
        pytest.param(
            "ttl.copy(c[rows, cols]", "ttl.copy(b[rows, cols]", 1, "wrong-result", "", id="swapped"
        ),
        pytest.param(
            "ttl.copy(c[rows, cols]",
            "ttl.copy(b[rows, cols]",
            1,
            "swapped",
            "b is copied where c seems to belong",
            id="swapped, by the buffer's name",
        ),
        pytest.param(
            "multiply_add(a, b, c, y)\n        result",
            "multiply_add(c, b, a, y)\n        result",
            1,
            "swapped",
            "c and a look swapped in the call",
            id="swapped in the call",
        ),
        pytest.param(
            "y[rows, cols]",
            "y[slice(0, BLOCK), cols]",
            1,
            "overlapping-writes",
            "16 tiles of y are written by several nodes, with different values",
            id="as many tiles, in the wrong places",
        ),
        pytest.param(
            "y[rows, cols]",
            "y[slice(0, BLOCK), cols]",
            1,
            "partly-written",
            "y is written only in part: 16 of 64 tiles",
            id="as many tiles, and holes",
        ),
        pytest.param(
            "range(blocks_per_node)", "range(0)", 3, "nothing-written", "no tensor", id="no loop"
        ),
        pytest.param(
            "ttl.copy(c[rows, cols]",
            "ttl.copy(b[rows, cols]",
            1,
            "untouched",
            "c (line 17) is never read or written",
            id="swapped, by name",
        ),
        pytest.param(
            "block_count=2", "block_count=100", 4, "above-l1", "2.2 times the L1", id="L1"
        ),
        pytest.param(
            "GRID = (4, 1)", "GRID = (9, 1)", 1, "idle-nodes", "1 node of 9 is idle", id="idle"
        ),
        pytest.param(
            "y_block.store(a_block * b_block + c_block)",
            "y_block.store(a_block @ undefined)",
            1,
            "error",
            f"the kernel fails in compute, line {line_of('y_block.store')}",
            id="an error in a thread",
        ),
    ],
)
def test_a_seeded_fault_is_named(
    here: Here, before: str, after: str, count: int, kind: str, words: str
) -> None:
    found = {each.kind: each for each in report_of(here.seeded(before, after, count)).found}
    assert kind in found
    assert words in found[kind].title


def test_places_of_writes_have_lines_and_nodes(here: Here) -> None:
    found = report_of(here.seeded("y[rows, cols]", "y[slice(0, BLOCK), cols]")).found
    kinds = {each.kind: each for each in found}
    line = line_of("y_copy = ttl.copy")
    assert f"never written: tiles (2, 0) to (7, 7); written at line {line}" in (
        kinds["partly-written"].evidence
    )
    assert re.search(
        rf"tile \(0, 0\): by node \(0, 0\), then by node \(\d, 0\) at line {line}",
        kinds["overlapping-writes"].evidence,
    )
    assert [each.goal for each in found[:3]] == [4, 4, 4]


def test_tiles_that_every_node_writes_alike_are_a_remark(here: Here) -> None:
    here.edit("node * blocks_per_node", "0 * blocks_per_node", 9)
    here.edit("-(-blocks // ttl.grid_size(dims=1))", "blocks")
    found = {each.kind: each for each in report_of(here.simulate()).found}
    again = found["written-again"]
    assert again.title == "64 tiles of y are written more than once" and not again.limits
    assert "64 of them by several nodes, with the same values" in again.evidence


def test_lines_of_a_missing_pop_an_unused_tensor_and_a_failed_check(here: Here) -> None:
    here.edit(
        """with y_dfb.wait() as y_block:
                    y_copy = ttl.copy(y_block, y[rows, cols])
                    y_copy.wait()""",
        """y_block = y_dfb.wait()
                ttl.copy(y_block, y[rows, cols]).wait()""",
    )
    here.edit('sys.exit("y is not a * b + c")', 'raise AssertionError("wrong")')
    run = here.seeded("ttl.copy(c[rows, cols]", "ttl.copy(b[rows, cols]")
    text = (here.folder / KERNEL).read_text().splitlines()

    def line(words: str) -> int:
        return next(number for number, each in enumerate(text, 1) if words in each)

    found = {each.kind: each for each in report_of(run).found}
    assert found["implied-pop"].evidence.endswith(f"wait() at line {line('y_dfb.wait()')}")
    assert found["untouched"].title.startswith(f"c (line {line('def multiply_add')}) is never")
    reads = f"lines {line('b_copy = ttl')} and {line('c_copy = ttl')}"
    assert f"b is read into b_dfb and c_dfb at {reads}" in found["untouched"].change
    assert run.verdict is not None
    assert run.verdict.detail.endswith(f"({KERNEL}:{line('AssertionError')})")


@pytest.mark.parametrize(
    ("before", "after", "words", "heading"),
    [
        ("block_count=2", "block_count=100", "the dataflow buffers take", "DOES NOT FIT"),
        ("y[rows, cols]", "y[slice(0, BLOCK), cols]", "y is written only in part", "NOT RIGHT"),
    ],
)
def test_what_is_not_right_is_exit_code_1(
    here: Here, run_cli: RunCli, before: str, after: str, words: str, heading: str
) -> None:
    here.edit(before, after, 4)
    here.edit('sys.exit("y is not a * b + c")', "pass")
    python = str(here.options.python)
    call = ("kernel", "run", "--simulate", "--python", python)
    done = run_cli(*call, KERNEL, cwd=here.folder)
    assert done.returncode == 1 and f"error: {words}" in done.stderr
    assert heading in done.stdout.splitlines()[0]
    meant = run_cli(*call, "--validate", f"{python} -c pass", KERNEL, cwd=here.folder)
    assert meant.returncode == (1 if "block_count" in before else 0)


def test_a_deadlock_says_who_waits_where_and_which_loop_to_mend(here: Here) -> None:
    here.edit("range(blocks_per_node):\n            if", "range(5):\n            if True or")
    with pytest.raises(RunFailed, match=r"deadlock: compute waits at line \d+ for a_dfb") as caught:
        here.simulate()
    assert isinstance(caught.value.result, KernelRun)
    limit = report_of(caught.value.result).limit
    assert limit is not None
    assert f"compute waits at line {line_of('a_dfb.wait()')} for a block of a_dfb" in limit.evidence
    assert f"a_dfb (line {line_of('a_dfb = ')}): read pushed 4, compute popped 4" in limit.evidence
    assert f"read (line {line_of('def read')}) has ended" in limit.change


def test_the_script_and_the_reference_say_whether_it_is_right(here: Here, tmp_path: Path) -> None:
    import numpy as np

    kept = here.simulate().folder
    assert json.loads((kept / "run.json").read_text())["validated"] is None
    reference = tmp_path / "right.csv"
    np.savetxt(reference, np.full(100, 7.0), delimiter=",")
    criteria = Criteria(reference=reference, output_file=Path("y.csv"))
    wrong = here.simulate(criteria=criteria)
    assert wrong.verdict is not None and "100 of 100 elements differ" in wrong.verdict.detail
    assert not (here.folder / "y.csv").exists()
    # What an earlier run left is not what this one wrote.
    (here.folder / "y.csv").write_bytes(reference.read_bytes())
    here.edit('Path("y.csv").write_text(', "len(")
    stale = here.simulate(criteria=criteria)
    assert stale.verdict is not None and stale.verdict.detail == "the script did not write y.csv"


def test_without_a_device_it_is_simulated_by_itself_and_said(here: Here) -> None:
    plain = dataclasses.replace(here.options, simulated=Simulated())
    assert isinstance(run_kernel(KERNEL, (), plain).report, SimulatedReport)
    device = here.folder / "none" / "0"
    device.parent.mkdir()
    device.touch()
    with pytest.raises(NotReady, match="TT_METAL_HOME"):
        run_kernel(KERNEL, (), plain)


def test_options_reach_the_simulator(here: Here) -> None:
    here.edit("grid=GRID", 'grid="full"')
    chosen = Simulated(simulate=True, grid="2,1", max_l1=50_000, scheduler="greedy")
    report = report_of(here.simulate(simulated=chosen))
    assert report.simulation.grid == (2, 1) and report.simulation.scheduler == "greedy"
    assert report.limit is not None and report.limit.kind == "above-l1"


def test_movement_alone_is_counted_the_same_and_checks_nothing(here: Here) -> None:
    run = here.simulate(simulated=Simulated(simulate=True, no_arithmetic=True))
    assert report_of(run).simulation.measures == report_of(here.simulate()).simulation.measures
    assert run.verdict is None and "nothing was computed" in " ".join(run.report.warnings)


def test_what_was_counted_until_the_limit_is_kept(here: Here) -> None:
    here.edit("y_block.store(", "__import__('time').sleep(900)\n                    y_block.store(")
    with pytest.raises(RunFailed, match="did not end within 20 s") as caught:
        here.simulate(timeout_s=20.0)
    assert isinstance(caught.value.result, KernelRun)
    assert re.search(r": it stood at line \d+ \(compute\)$", str(caught.value))
    report = report_of(caught.value.result)
    assert not report.simulation.complete and report.floor is None
    (finding,) = report.found
    assert re.fullmatch(r"the simulation was ended in compute, line \d+", finding.title)
    assert "on node (0, 0)" in finding.evidence
    assert finding.change.endswith("The counts below end there.")


def test_the_chosen_of_two_is_counted_and_the_other_runs_too(here: Here) -> None:
    here.edit("        multiply_add(a, b, c, y)\n", "        multiply_add(a, b, c, y)\n" * 2)
    run = here.simulate(choice=Choice(call=2))
    assert run.valid and report_of(run).simulation.operations == 1
    assert "another with --call N" in " ".join(run.report.warnings)


def test_a_check_that_fails_after_another_call_does_not_call_this_one_wrong(here: Here) -> None:
    call = "        multiply_add(a, b, c, y)\n"
    here.edit(call, call + "        multiply_add(a, b, a, y)\n")
    for number, later, kind in ((1, 1, "wrong-later"), (2, 0, "wrong-result")):
        run = here.simulate(choice=Choice(call=number))
        assert run.verdict is not None and (run.verdict.ok, run.verdict.later) == (False, later)
        limit = report_of(run).limit
        assert limit is not None and limit.kind == kind


#: Ways to a call, by what stands for the kernel's module and for the script that calls it.
CALLED = {
    "a loop": ("", "for _ in range(3):\n    multiply_add(*tensors)\n"),
    "a wrapper": (
        "def wrapped(*tensors):\n    multiply_add(*tensors)\n\n\n",
        "wrapped(*tensors)\nwrapped(*tensors)\n",
    ),
    "its own module": (
        "def repeated(*tensors):\n    for _ in range(2):\n        multiply_add(*tensors)\n\n\n",
        "repeated(*tensors)\n",
    ),
}


@pytest.mark.parametrize("way", CALLED)
def test_of_a_module_s_kernel_one_call_is_counted_whatever_the_way_to_it(
    here: Here, way: str
) -> None:
    more, calls = CALLED[way]
    text = (here.folder / KERNEL).read_text()
    assert text.count("def main(") == 1
    (here.folder / "ops.py").write_text(text.partition("def main(")[0] + more)
    given = (
        "import torch\nimport ttnn\nfrom ops import *\n\ndevice = ttnn.open_device(device_id=0)\n"
    )
    tensors = "tensors = [to_device(torch.ones(256, 256), device) for _ in range(4)]\n"
    (here.folder / "bench.py").write_text(given + tensors + calls)
    run = here.simulate("bench.py")
    counted = report_of(run)
    assert run.script_exit_code == 0 and counted.simulation.complete
    assert {row["times"] for row in counted.to_json()["moved"]} == {1}
    assert counted.simulation.operations == 1
    assert (here.folder / "ops.py").read_text().endswith(more)


def test_versions_are_judged_by_counts_and_a_wrong_one_is_no_better(here: Here) -> None:
    work = Iteration(here.folder / KERNEL, (), here.options, repeat=1)
    assert work.measure().state == "baseline"
    here.edit("BLOCK = 2", "BLOCK = 4")
    here.edit("GRID = (4, 1)", "GRID = (2, 2)")
    better = work.measure()
    assert better.state == "better" and "its copies 0.25x" in better.compared
    assert "no times" in better.compared and better.median_us is None
    here.edit("a_block * b_block", "a_block + b_block")
    wrong = work.measure()
    assert (wrong.state, wrong.problem[-20:]) == ("invalid", ": y is not a * b + c")
    here.edit("a_block + b_block", "a_block * b_block")
    here.edit("block_count=2", "block_count=40", 4)
    assert work.measure().problem.startswith("simulated: the dataflow buffers take")
    assert work.session.best == 2
    # Nothing is measured to go back, with a device or without.
    again = Iteration(here.folder / KERNEL, (), KernelOptions(cwd=here.folder), restoring=True)
    assert again.restore().number == 2


def test_a_version_that_writes_less_is_no_better(here: Here) -> None:
    here.edit('sys.exit("y is not a * b + c")', "pass")  # nothing of its own would tell
    work = Iteration(here.folder / KERNEL, (), here.options, repeat=1)
    work.measure()
    here.edit("range(blocks_per_node)", "range(0)", 9)
    nothing = work.measure()
    assert nothing.state == "failed" and "the kernel writes no tensor" in nothing.problem
    assert work.session.best == 1


def test_what_a_finding_names_is_tried_and_the_file_stays_as_it_is(here: Here) -> None:
    here.edit("block_count=2", "block_count=3")
    path = here.folder / KERNEL
    before, work = path.read_bytes(), Iteration(path, (), here.options, repeat=1)
    work.measure()
    tried = {each.title: each for each in work.try_edits()}
    grid = tried[f'grid="full" (line {line_of("@ttl.operation")})']
    assert grid.state == "better" and "bytes of the busiest node 0.25x" in grid.said
    buffer = tried[f"block_count of a_dfb 3 -> 2 (line {line_of('a_dfb = ')})"]
    assert (buffer.state, path.read_bytes()) == ("same", before)
    again = Iteration(path, (), here.options, repeat=1)
    assert {each.title for each in again.session.versions[-1].tried} == tried.keys()


def test_a_trial_that_breaks_the_kernel_is_no_better(here: Here) -> None:
    # Every node does all of it: right on one, written again by 64.
    here.edit("GRID = (4, 1)", "GRID = (1, 1)")
    here.edit("node * blocks_per_node", "0 * blocks_per_node", 9)
    here.edit("ttl.grid_size(dims=1)", "1")
    work = Iteration(here.folder / KERNEL, (), here.options, repeat=1)
    work.measure()
    (grid,) = [each for each in work.try_edits() if "grid" in each.title]
    assert grid.state in ("worse", "invalid", "failed")


def test_what_hangs_on_the_simulator_never_comes_to_the_device(here: Here) -> None:
    device = here.folder / "none" / "0"
    device.parent.mkdir()
    device.touch()
    plain = dataclasses.replace(here.options, simulated=Simulated())
    with pytest.raises(NotReady, match="TT_METAL_HOME"):  # right, and then the device's turn
        Iteration(here.folder / KERNEL, (), plain).measure()
    here.edit("@ttl.operation", "@ttl.kernel")
    with pytest.raises(NotReady, match="TT_METAL_HOME"):  # nothing that the simulator can judge
        Iteration(here.folder / KERNEL, (), plain).measure()
    here.edit("@ttl.kernel", "@ttl.operation")
    here.edit("range(blocks_per_node):\n            if", "range(5):\n            if True or")
    with pytest.raises(RunFailed, match="deadlock: compute waits"):
        Iteration(here.folder / KERNEL, (), plain).measure()


# -- the tutorials of the simulator --------------------------------------------------------------


@pytest.fixture(scope="module")
def tutorials(ttl_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts that come with it, matmul at an eighth of its extents."""
    folder = tmp_path_factory.mktemp("tutorials")
    setup = ttl_python.parent / "tt-lang-setup-tutorials"
    subprocess.run([str(setup), "-t", str(folder)], check=True, capture_output=True, timeout=120)
    for script in folder.glob("matmul/*.py"):
        script.write_text(script.read_text().replace("8192, 8192, 8192", "1024, 1024, 1024"))
    return folder


def test_every_tutorial_with_a_kernel_is_explained(tutorials: Path) -> None:
    scripts = sorted(tutorials.rglob("*.py"))
    assert len(scripts) == 15
    for script in scripts:
        document = explain_kernel(script, Choice())
        if "step_0" in script.name:
            assert document["declined"][0]["kind"] == "no-kernel"
            continue
        (kernel,) = document["kernels"]
        assert document["chosen"]["invocation"] is not None
        assert [t["kind"] for t in kernel["threads"]].count("datamovement") == 2
        assert kernel["buffers"] and all(buffer["factor"] == 2 for buffer in kernel["buffers"])


MEASURES = ("dram_bytes", "busiest_node_bytes", "busiest_node_copies")


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["elementwise", "matmul"])
def test_the_steps_improve_as_their_authors_meant(
    here: Here, tutorials: Path, subject: str
) -> None:
    steps = sorted(tutorials.glob(f"{subject}/step_[1-4]*.py"))
    reports = [report_of(here.simulate(str(step), timeout_s=HANG_S)) for step in steps]
    counts = [report.simulation.measures for report in reports]
    for before, after in pairwise(counts):
        assert all(after[name] <= before[name] for name in MEASURES)
        assert after != before
    kinds = [report.limit.kind if report.limit else "" for report in reports]
    last = "" if subject == "elementwise" else "read-again"
    assert kinds == ["single-node", "single-node", "small-grid", last]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["broadcast/*multitile*", "matmul/step_5*", "matmul/step_7*"])
def test_other_tutorials_run_and_nothing_right_is_called_wrong(
    here: Here, tutorials: Path, name: str
) -> None:
    (script,) = tutorials.glob(name)
    run = here.simulate(str(script), timeout_s=HANG_S)
    assert run.valid and not [f for f in run.report.found if f.goal == 4]


def test_the_simulator_is_found_where_it_is(here: Here) -> None:
    assert examine(here.folder, python=here.options.python).simulates_kernels
    assert not examine(here.folder).simulates_kernels
    with pytest.raises(InstrumentError, match="has no tt-lang-sim") as caught:
        here.simulate(python=None)
    assert "pip install tt-lang-sim" in (caught.value.hint or "")
