"""What tests a module is found by its name: `tests/x/test_y.py` is for `instrumentor/x/y.py`.

Where there is no such file, the package has one (`tests/locate/test_rules.py`), or a test imports
the module, and a search for its name finds it, or it stands in the table below.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.conftest import ROOT

TESTS = ROOT / "tests"

#: Modules that are tested through others only, by the tests that would fail.
TESTED_IN = {
    "tests/cli/test_main.py": (
        "shared/about cli/diff_preview cli/verbs/apply cli/verbs/explain cli/verbs/preview "
        "cli/verbs/skill cli/verbs/explain_warning"
    ),
    "tests/run/test_command.py": "cli/verbs/profile",
    "tests/cli/verbs/test_compare.py": "cli/compare_runs",
    "tests/run/test_training.py": "run/pipeline shared/progress",
    "tests/end_to_end/test_failure_table.py": "cli/verbs/diagnose",
    "tests/end_to_end/test_in_place.py": "cli/verbs/restore",
    "tests/end_to_end/test_readiness.py": "cli/verbs/doctor",
    "tests/end_to_end/test_sampling.py": "cli/verbs/repeat",
    "tests/end_to_end/test_tune.py": "tune/trials",
    "tests/kernels/test_cli.py": "cli/verbs/kernel",
    "tests/kernels/test_gate.py": "runtime/kernel_gate",
    "tests/kernels/test_run.py": "kernels/device kernels/pipeline",
    "tests/kernels/test_simulate.py": "runtime/kernel_simulation",
    "tests/locate/test_renaming.py": (
        "read/names read/handed_on locate/meaning/changed_names locate/meaning/host_values "
        "locate/meaning/spelling"
    ),
    "tests/locate/changes/test_host_reads.py": "locate/meaning/plain_numbers",
    "tests/locate/gradients/test_forward.py": "read/names_used locate/gradients/tracked_values",
    "tests/locate/gradients/test_walk.py": "locate/gradients/differentiable",
    "tests/locate/test_rules.py": ("locate/remarks locate/choose_loop"),
    "tests/locate/region/test_accumulation.py": "locate/region/modes",
    "tests/locate/meaning/test_kinds.py": "locate/loop/by_hand",
    "tests/run/process/test_running.py": "run/process/model run/process/tree",
    "tests/machine/test_interpreter.py": "runtime/probe",
    "tests/runtime/recorder/test_barrier.py": "runtime/recorder/step_tensors",
    "tests/runtime/recorder/test_flop_formulas.py": "runtime/recorder/dispatched",
    "tests/runtime/recorder/test_phases.py": (
        "runtime/recorder/host_memory runtime/recorder/extra_steps"
    ),
    "tests/runtime/recorder/test_witness.py": "runtime/recorder/graph",
    "tests/end_to_end/test_discovery.py": "runtime/recorder/whole_step",
    "tests/workspace/test_copy_planner.py": "workspace/git_listing",
    "tests/workspace/test_kept_copy.py": "workspace/file_stamps",
    "tests/analysis/test_parity.py": (
        "analysis/ops/advice analysis/load/attributes analysis/load/cells analysis/ops/op_models"
    ),
    "tests/analysis/kernels/test_simulated_findings.py": "analysis/kernels/simulated_writes",
    "tests/analysis/kernels/test_simulated_report.py": "analysis/reports/kernel_simulated",
    "tests/analysis/compare/test_comparing.py": (
        "analysis/compare/notes analysis/compare/statement"
    ),
    "tests/analysis/compare/test_ops.py": "analysis/compare/op_lists",
    "tests/analysis/reports/comparison/test_document.py": (
        "analysis/reports/comparison/cells analysis/reports/comparison/rows"
    ),
}


#: Tests of what holds across modules, and of the repository itself.
ACROSS = {
    "ablation",
    "choose",  # a profiler: profilers/__init__.py
    "crank_standin",
    "documentation",
    "executed",
    "experiments",
    "expressions",  # regular ones
    "fuzz",
    "generated",
    "golden",
    "make",
    "doors",
    "mirror",
    "parity",  # with tt-perf-report
    "properties",
    "recorded",
    "recording",
    "renaming",
    "safety",
    "same_losses",
}


def _modules() -> dict[str, Path]:
    """Every module by its name here, and its file."""
    found = {}
    for folder, before in (("instrumentor", ""), ("analysis/instrumentor_analysis", "analysis/")):
        for path in (ROOT / folder).rglob("*.py"):
            if not path.name.startswith("__"):
                name = path.relative_to(ROOT / folder).with_suffix("").as_posix()
                found[before + name] = path
    return found


def _homes(name: str) -> Iterator[Path]:
    """Test files that bear a module's name: its own, those of its topics, its packages'."""
    test = TESTS / f"{name}.py"
    test = test.with_name(f"test_{test.name}")
    yield test
    yield from test.parent.glob(f"{test.stem}_*.py")
    for folder in test.parents:
        if folder in (TESTS, TESTS / "analysis"):
            return
        yield folder.with_name(f"test_{folder.name}.py")


def _imported(path: Path, sources: list[str]) -> bool:
    """Whether a test imports a module, by itself or out of its package."""
    dotted = path.relative_to(ROOT).with_suffix("").as_posix().removeprefix("analysis/")
    package, _, name = dotted.replace("/", ".").rpartition(".")
    found = re.compile(rf"{package}\.{name}\b|from {package} import (\([^)]*|[^\n(]*)\b{name}\b")
    return any(found.search(source) for source in sources)


def test_every_module_has_its_tests_where_one_looks_for_them() -> None:
    sources = [path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py")]
    listed = {name for names in TESTED_IN.values() for name in names.split()}
    without = {
        name
        for name, path in _modules().items()
        if not any(home.exists() for home in _homes(name)) and not _imported(path, sources)
    }
    assert without - listed == set(), "name the tests after the module, or list it above"
    assert listed - without == set(), "has tests of its own, or is gone: take it off the table"
    assert [test for test in TESTED_IN if not (ROOT / test).is_file()] == []


def test_every_test_bears_the_name_of_what_it_tests() -> None:
    """Or lies in a folder, or bears a name, of tests that go across modules."""
    modules = {path.stem for path in _modules().values()}
    packages = {path.parent.name for path in _modules().values()}
    known = modules | packages | ACROSS
    for test in TESTS.rglob("test_*.py"):
        words = test.stem.removeprefix("test_").split("_")
        beginnings = {"_".join(words[:count]) for count in range(1, len(words) + 1)}
        across = test.relative_to(TESTS).parts[0] in ("end_to_end", "shapes", "ttsim", "xla")
        assert across or beginnings & known, f"{test}: the name of no module; else put into ACROSS"
