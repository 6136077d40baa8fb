"""Messages of the compiler in Tracy's log, and the locations that they give to ops."""

from __future__ import annotations

from pathlib import Path

from instrumentor_analysis.load.perf_trace import read_messages
from instrumentor_analysis.summary.summarise import analyse
from tests.analysis.ops_rows import op, step, text
from tests.analysis.records import run_folder

MESSAGES = """\
MessageName;total_ns
MLIR_PROGRAM_METADATA;{};5420869000
MLIR_CONST_EVAL_OP;true;5420869100
MLIR_OP_LOCATION;loc("train.py":3:1);5420869271
`TT_DNN_DEVICE_OP: "TilizeDeviceOperation", 6579250399439280527, 0, false, 1024 ->
{
  "attributes": {"x": "1"}
}`;5420869999
MLIR_CONST_EVAL_OP;false;6449925338
MLIR_OP_LOCATION;loc(fused["train.py":7:1; "train.py":8:1]);6449925339
`TT_DNN_DEVICE_OP: "UnaryDeviceOperation", 65, 0, true, 2048`;6449925340
`TT_DNN_DEVICE_OP: "UnaryDeviceOperation", 65, 0, true, 3073`,6449925341
`TT_SIGNPOST: step_steady_1_end`;6449925342
"""


def test_each_op_bears_the_location_before_it(tmp_path: Path) -> None:
    path = tmp_path / "tracy_ops_data.csv"
    endless = f'`TT_DNN_DEVICE_OP: "Op", 65, 0, true, {"9" * 5000}`;1\n'
    path.write_text(MESSAGES + endless, encoding="utf-8")
    found = read_messages(path)
    assert {count: (told["LOC"], told["CONST_EVAL_OP"]) for count, told in found.items()} == {
        1024: ('loc("train.py":3:1)', "true"),
        2048: ('loc(fused["train.py":7:1; "train.py":8:1])', "false"),
        3073: ('loc(fused["train.py":7:1; "train.py":8:1])', "false"),
    }


def test_a_run_without_loc_column_is_located_by_messages(tmp_path: Path) -> None:
    rows = text(step("step_steady_1", [op(us=5.0), op(us=6.0), op(us=7.0), op(us=8.0)]))
    folder = run_folder(tmp_path, ops=rows)
    assert analyse(folder).summary.locations.lines == ()
    log = folder / "tracy_profile" / ".logs" / "tracy_ops_data.csv"
    log.parent.mkdir(parents=True)
    log.write_text(MESSAGES, encoding="utf-8")
    locations = analyse(tmp_path).summary.locations
    assert [(e.line, e.device_time_ms, e.const_eval) for e in locations.lines] == [
        (7, 0.013, False), (3, 0.005, True),
    ]  # fmt: skip
    assert locations.unlocated_ms == 0.008
