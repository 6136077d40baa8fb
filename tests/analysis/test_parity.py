"""Every figure of every op is that of tt-perf-report 1.4.1, or the difference is named here."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import pytest

from instrumentor_analysis.load.table import any_known
from instrumentor_analysis.ops.op_report import per_op_report
from instrumentor_analysis.ops.report_options import ReportOptions
from instrumentor_analysis.shared.errors import EmptyWindow, NoSuchSignpost
from tests.analysis.ops_rows import FIXTURES, REAL, header, host_op, matmul, op, signpost, text
from tests.analysis.random_rows import random_csv
from tests.analysis.theirs import Theirs, differences, run, stacked_differences

pytestmark = pytest.mark.skipif(
    importlib.metadata.version("tt-perf-report") != "1.4.1",
    reason="figures are compared with tt-perf-report 1.4.1",
)


@dataclass(frozen=True)
class Case:
    """The same question to both."""

    files: tuple[str, ...]
    options: ReportOptions

    @property
    def name(self) -> str:
        """For the test's id."""
        return "+".join(self.files) + " " + " ".join(arguments(self.options))

    @property
    def sources(self) -> list[Path]:
        """Where the files lie."""
        return [(REAL if (REAL / name).is_file() else FIXTURES) / name for name in self.files]


def arguments(options: ReportOptions) -> list[str]:
    """Our options as theirs, whose names they bear."""
    found: list[str] = []
    for field in fields(options):
        value = getattr(options, field.name)
        if value != field.default:
            found.append("--" + field.name.replace("_", "-"))
            found += [] if value is True else [str(value)]
    return found


REAL_FILES = ("bh20_oft_integral_image_trace.csv", "bh_p100_dlv3.csv", "wh_clip_encoder_2.csv")
FILES = ("training_v2_1.csv", "models_v2_1.csv", "v2_plain.csv", "two_devices_v1.csv",
         "uneven_devices_v1.csv", "sub_devices.csv", "replay.csv", "locations.csv",
         *REAL_FILES)  # fmt: skip


def cases() -> list[Case]:
    """Each fixture as a whole, and each option where it makes a difference."""
    whole = ReportOptions(ignore_signposts=True)
    others = replace(whole, group_by="op", arch="P150")
    step = ReportOptions(start_signpost="step_steady_1_start", end_signpost="step_steady_1_end")
    integral = "integral_image_start"
    asked = {
        "training_v2_1.csv": [
            step,
            ReportOptions(end_signpost="step_compile_end", print_signposts=True),
            ReportOptions(start_signpost="step_steady_2_start"),
        ],
        "replay.csv": [step, replace(whole, tracing_mode=True)],
        "v2_plain.csv": [
            ReportOptions(),
            ReportOptions(no_host_ops=True),
            replace(whole, print_signposts=True),
        ],
        "models_v2_1.csv": [
            *(ReportOptions(id_range=ids) for ids in ("5-12", "31-", "-7")),
            ReportOptions(group_by="category"),
        ],
        "two_devices_v1.csv": [ReportOptions(no_merge_devices=True)],
        "sub_devices.csv": [ReportOptions(active_experts=2)],
        "bh_p100_dlv3.csv": [ReportOptions(arch="p100")],
        "bh20_oft_integral_image_trace.csv": [
            ReportOptions(),
            ReportOptions(start_signpost=integral, end_signpost=integral),
        ],
    }
    return [
        *(Case((name,), options) for name in FILES for options in (whole, others)),
        *(Case((name,), options) for name, several in asked.items() for options in several),
        Case(("two_devices_v1.csv",) * 2, ReportOptions()),
    ]


CASES = cases()


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, Theirs]:
    """What tt-perf-report says to all cases whose files are there."""
    there = [case for case in CASES if all(path.is_file() for path in case.sources)]
    out = tmp_path_factory.mktemp("theirs")
    found = run([(case.sources, arguments(case.options)) for case in there], out)
    return dict(zip(there, found, strict=True))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_cell_is_the_same(case: Case, answers: dict[Case, Theirs]) -> None:
    if case not in answers:
        pytest.skip("needs the real traces beside the repository")
    theirs = answers[case]
    assert theirs.crashed is None
    ours = per_op_report(case.sources if len(case.files) > 1 else case.sources[0], case.options)
    assert theirs.rows
    assert differences(ours, theirs.rows, advice=True) == []
    assert stacked_differences(ours, theirs.stacked) == []


@pytest.mark.parametrize(
    "case", [c for c in CASES if c.options.start_signpost], ids=lambda c: c.name
)
def test_a_window_cut_out_of_the_bytes_is_the_same(
    case: Case, answers: dict[Case, Theirs], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instrumentor_analysis.ops.steps.WHOLE_FILE_BYTES", 0)
    test_every_cell_is_the_same(case, answers)


RANDOM_OPTIONS = (
    ReportOptions(ignore_signposts=True),
    ReportOptions(start_signpost="a", end_signpost="b", print_signposts=True),
    ReportOptions(ignore_signposts=True, no_merge_devices=True, group_by="op"),
    ReportOptions(ignore_signposts=True, active_experts=3, no_host_ops=True),
)


def test_random_rows_are_the_same(tmp_path: Path) -> None:
    paths = [tmp_path / f"random_{seed}.csv" for seed in range(24)]
    for seed, path in enumerate(paths):
        path.write_text(random_csv(seed), encoding="utf-8", newline="")
    asked = [RANDOM_OPTIONS[seed % len(RANDOM_OPTIONS)] for seed in range(len(paths))]
    questions = zip(paths, asked, strict=True)
    answers = run([([path], arguments(options)) for path, options in questions], tmp_path)
    compared = 0
    for path, options, theirs in zip(paths, asked, answers, strict=True):
        assert theirs.crashed is None
        try:
            ours = per_op_report(path, options)
        except EmptyWindow:
            assert theirs.rows == []
            continue
        except NoSuchSignpost:
            # Theirs passes over a name that is not there; so does ours once it is left out.
            there = path.read_text(encoding="utf-8")
            start, end = (
                name if name and f"\n{name},signpost," in there else None
                for name in (options.start_signpost, options.end_signpost)
            )
            ours = per_op_report(path, replace(options, start_signpost=start, end_signpost=end))
        assert differences(ours, theirs.rows, advice=True) == [], path.name
        assert stacked_differences(ours, theirs.stacked) == [], path.name
        compared += 1
    assert compared > 15


# Where the two differ on purpose: (what it does, why ours does not). Each must still be so, or
# the deviation has lost its reason.
DEVIATIONS: dict[str, tuple[list[dict[str, str]], Sequence[str], str]] = {
    "a matmul without memory crashes it": (
        [matmul(64, 64, 64, 5.0) | {"INPUT_0_MEMORY": ""}], header(), "TypeError"),
    "a matmul without math fidelity crashes it": (
        [matmul(64, 64, 64, 5.0, fidelity=""), op(MATH__FIDELITY="LoFi")], header(), "ValueError"),
    "a signpost named like a matmul crashes it": (
        [signpost("Matmul pass"), op(), signpost("x"), op()], header(), "TypeError"),
    "a file without call counts crashes it": (
        [op()], [c for c in header() if c != "GLOBAL CALL COUNT"], "KeyError"),
    "a file without device ids ends it": (
        [op()], [c for c in header() if c != "DEVICE ID"], "exit 1"),
    "a host matmul crashes it": (
        [op(), host_op("(torch) aten::Matmul")], header(), "TypeError"),
    "an unknown architecture crashes it": (
        [op() | {"DEVICE ARCH": "quasar"}], header(), "ValueError"),
}  # fmt: skip


@pytest.fixture(scope="module")
def crashes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Theirs]]:
    """What tt-perf-report makes of the files that ours deviates on."""
    out = tmp_path_factory.mktemp("crashes")
    paths = []
    for number, (rows, columns, _) in enumerate(DEVIATIONS.values()):
        paths.append(out / f"odd_{number}.csv")
        paths[-1].write_text(text(rows, columns), encoding="utf-8")
    found = run([([path], ["--ignore-signposts"]) for path in paths], out)
    return {
        name: (path, theirs) for name, path, theirs in zip(DEVIATIONS, paths, found, strict=True)
    }


@pytest.mark.parametrize("name", DEVIATIONS)
def test_deviation_has_its_reason(name: str, crashes: dict[str, tuple[Path, Theirs]]) -> None:
    path, theirs = crashes[name]
    assert theirs.crashed.startswith(DEVIATIONS[name][2])
    report = per_op_report(path, ReportOptions(ignore_signposts=True))
    assert len(report.ops) == len(DEVIATIONS[name][0])
    assert any_known(report.ops["device_time_us"])
