"""Build small ops CSVs cell by cell, in any of the formats.

Run as a script, it writes the recorded fixtures again: python tests/analysis/ops_rows.py
"""

from __future__ import annotations

import csv
import io
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from instrumentor_analysis.load.ops_csv import load
from instrumentor_analysis.load.table import Table
from instrumentor_analysis.ops.per_op import per_op
from instrumentor_analysis.ops.roofline import architecture

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "ops"
REAL = Path(__file__).resolve().parents[3] / "shared" / "data"

_HEAD = ("OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID")
_V21 = ("DEVICE ARCH", "AVAILABLE WORKER CORE COUNT", "SUB DEVICE ID")
_TIMES = (
    "ATTRIBUTES",
    "MATH FIDELITY",
    "CORE COUNT",
    "HOST START TS",
    "HOST END TS",
    "HOST DURATION [ns]",
    "DEVICE FW START CYCLE",
    "DEVICE FW END CYCLE",
    "OP TO OP LATENCY [ns]",
    "DEVICE FW DURATION [ns]",
    "DEVICE KERNEL DURATION [ns]",
)
_TAIL = ("METAL TRACE ID", "METAL TRACE REPLAY SESSION ID", "PM IDEAL [ns]")


def header(version: str = "v2.1", more: Sequence[str] = ()) -> tuple[str, ...]:
    """Column names of a format, and more at the end."""
    suffix = "" if version == "v1" else "_PAD[LOGICAL]"
    tensors = tuple(
        f"{tensor}_{name}"
        for tensor in ("INPUT_0", "INPUT_1", "OUTPUT_0")
        for name in (*(f"{axis}{suffix}" for axis in "WZYX"), "LAYOUT", "DATATYPE", "MEMORY")
    )
    middle = _V21 if version == "v2.1" else ()
    return (*_HEAD, *middle, *_TIMES, *tensors, *_TAIL, *more)


Row = dict[str, str]


def signpost(name: str, at: int = 0, message: str = "") -> Row:
    """A signpost row."""
    row = {"OP CODE": name, "OP TYPE": "signpost", "ATTRIBUTES": message}
    return row | ({"HOST START TS": str(at)} if at else {})


def host_op(code: str = "(torch) aten::add", **cells: object) -> Row:
    """An op that fell back to the host."""
    return {"OP CODE": code, "OP TYPE": "python_fallback"} | {k: str(v) for k, v in cells.items()}


def op(
    code: str = "UnaryDeviceOperation",
    us: float | None = 10.0,
    gap_us: float | None = 1.0,
    *,
    inputs: Sequence[tuple[str, str, str]] = (("1x1x64x64", "BFLOAT16", "DRAM_INTERLEAVED"),),
    output: tuple[str, str, str] = ("1x1x64x64", "BFLOAT16", "DRAM_INTERLEAVED"),
    version: str = "v2.1",
    device: int = 0,
    **cells: object,
) -> Row:
    """A device op: time and gap in us; tensors as (shape, data type, memory)."""
    row = {
        "OP CODE": code,
        "OP TYPE": "tt_dnn_device",
        "DEVICE ID": str(device),
        "CORE COUNT": "64",
        "OP TO OP LATENCY [ns]": "" if gap_us is None else f"{gap_us * 1000:.0f}",
        "DEVICE KERNEL DURATION [ns]": "" if us is None else f"{us * 1000:.0f}",
        "DEVICE FW DURATION [ns]": "" if us is None else f"{us * 1000 + 500:.0f}",
    }
    if version == "v2.1":
        row |= {"DEVICE ARCH": "wormhole_b0", "AVAILABLE WORKER CORE COUNT": "64"}
    suffix = "" if version == "v1" else "_PAD[LOGICAL]"
    named = [(f"INPUT_{i}", tensor) for i, tensor in enumerate(inputs)]
    for tensor, (shape, datatype, memory) in [*named, ("OUTPUT_0", output)]:
        for axis, size in zip("WZYX", shape.split("x"), strict=True):
            row[f"{tensor}_{axis}{suffix}"] = size if version == "v1" else f"{size}[{size}]"
        row |= {
            f"{tensor}_LAYOUT": "TILE",
            f"{tensor}_DATATYPE": datatype,
            f"{tensor}_MEMORY": f"DEV_{device}_{memory}",
        }
    return row | {key.replace("__", " "): str(value) for key, value in cells.items()}


def matmul(
    m: int,
    k: int,
    n: int,
    us: float | None,
    *,
    types: tuple[str, str, str] = ("BFLOAT16", "BFLOAT16", "BFLOAT16"),
    places: tuple[str, str, str] = ("DRAM_INTERLEAVED",) * 3,
    fidelity: str = "HiFi4",
    batch: int = 1,
    code: str = "Matmul",
    attributes: str = "",
    **cells: object,
) -> Row:
    """A matmul of [batch, m, k] x [batch, k, n]."""
    shapes = (f"1x{batch}x{m}x{k}", f"1x{batch}x{k}x{n}", f"1x{batch}x{m}x{n}")
    first, second, out = zip(shapes, types, places, strict=True)
    return op(
        code,
        us,
        inputs=(first, second),
        output=out,
        **{"MATH__FIDELITY": fidelity, "ATTRIBUTES": attributes, **cells},  # type: ignore[arg-type]
    )


def text(rows: Iterable[Row], columns: Sequence[str] = header(), start_ns: int = 1_000_000) -> str:
    """The CSV: call counts, host times and firmware cycles are filled in where absent."""
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\r\n")
    writer.writeheader()
    now, cycle, count = start_ns, 10_000_000, 0
    for row in rows:
        now += 50_000
        full = {"HOST START TS": str(now), **row}
        if row["OP TYPE"] == "tt_dnn_device":
            count += 1
            device = int(row.get("DEVICE ID") or 0)
            cycle += _whole(row.get("OP TO OP LATENCY [ns]")) % 1_000_000
            end = cycle + _whole(row.get("DEVICE FW DURATION [ns]"))
            full = {
                "GLOBAL CALL COUNT": str(count << 10 | device),
                "DEVICE FW START CYCLE": str(cycle),
                "DEVICE FW END CYCLE": str(end),
                "HOST END TS": str(now + 20_000),
                "HOST DURATION [ns]": "20000",
                **full,
            }
            cycle = end
        writer.writerow(full)
    return out.getvalue()


def write(path: Path, rows: Iterable[Row], columns: Sequence[str] = header()) -> Path:
    """The CSV as a file."""
    path.write_text(text(rows, columns), encoding="utf-8", newline="")
    return path


def frame_of(*rows: Row) -> Table:
    """The rows as they are read."""
    with tempfile.TemporaryDirectory() as folder:
        tensors, known = ("INPUT_", "OUTPUT_"), header()
        found = dict.fromkeys(name for row in rows for name in row if not name.startswith(tensors))
        columns = header(more=[name for name in found if name not in known])
        return load(write(Path(folder) / "ops.csv", rows, columns)).frame


def per_op_of(*rows: Row, arch: str = "wormhole") -> Table:
    """The figures of each row."""
    return per_op(frame_of(*rows), architecture(arch))


def _whole(cell: str | None) -> int:
    return int(cell) if cell and cell.lstrip("-").isdecimal() else 0


def step(name: str, rows: Sequence[Row], complete: bool = True) -> list[Row]:
    """Rows between the signposts of a step."""
    end = [signpost(f"{name}_end")] if complete else []
    return [signpost(f"{name}_start"), *rows, *end]


_BLOCKS = "'program_config': 'Cfg(in0_block_w={};out_subblock_h={};out_subblock_w={})'"
_CONV = (
    "{'sliding_window_config': 'SlidingWindowConfig(batch_size=1; input_hw=(32;32); "
    "window_hw=(3;3); stride_hw=(1;1); padding=((1; 1); (1; 1)); dilation_hw=(1;1))'; "
    "'parallelization_config': 'Cfg(per_core_out_matrix_height_ntile=4;x)'; "
    "'block_config': 'Cfg(act_block_h_ntiles=2;y)'; 'enable_act_double_buffer': 'true'; "
    "'enable_split_reader': 'false'; 'memory_layout=TensorMemoryLayout::HEIGHT_SHARDED;'}"
)


def training_step(scale: float = 1.0) -> list[Row]:
    """Forward, backward and optimizer of a small net, with every bound."""
    return [
        op("EmbeddingsDeviceOperation", 11.0 * scale, 2.0),
        matmul(2048, 2048, 2048, 300.0 * scale),  # FLOP-bound on 64 cores at HiFi4
        matmul(32, 4096, 4096, 130.0 * scale, places=("L1_INTERLEAVED", "DRAM_INTERLEAVED",
               "L1_INTERLEAVED"), fidelity="HiFi2"),  # DRAM-bound
        matmul(512, 512, 512, 60.0 * scale, attributes=_BLOCKS.format(1, 1, 1)),
        op("SoftmaxDeviceOperation", 21.0 * scale, 7.5, CORE__COUNT=8),
        op("TransposeDeviceOperation", 14.0 * scale, 0.9),
        op("InterleavedToShardedDeviceOperation", 6.0 * scale, 0.7,
           output=("1x1x64x64", "BFLOAT16", "L1_HEIGHT_SHARDED")),
        op("EmbeddingBackwardDeviceOperation", 33.0 * scale, 12.0),
        op("MorehAdamWDeviceOperation", 41.0 * scale, 1.1),
    ]  # fmt: skip


def fixtures() -> dict[str, str]:
    """All recorded fixtures: file name to content."""
    training = [
        *step("step_compile", [*training_step(1.5), op("FullDeviceOperation", 5.0)]),
        *step("step_steady_1", training_step(1.1)),
        *step("step_steady_2", training_step(1.0)),
        *step("step_steady_3", training_step(1.0)[:3], complete=False),
    ]
    l1 = ("L1_WIDTH_SHARDED", "DRAM_WIDTH_SHARDED", "L1_WIDTH_SHARDED")
    bfp8 = ("BFLOAT16", "BFLOAT8_B", "BFLOAT8_B")
    bfp4 = ("BFLOAT8_B", "BFLOAT4_B", "BFLOAT8_B")
    sharded = "MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w={};x=1)"
    models = [
        *training_step(),
        matmul(2048, 2048, 2048, 300.0, types=bfp8, fidelity="LoFi", batch=4),
        matmul(1024, 1024, 1024, 45.0, types=("BFLOAT8_B",) * 3, fidelity="HiFi4"),
        matmul(1024, 1024, 1024, 60.0, types=("BFLOAT8_B",) * 3, fidelity="HiFi3"),
        matmul(1024, 1024, 1024, 70.0, types=("BFLOAT8_B",) * 3, fidelity="HiFi2"),
        matmul(1024, 1024, 1024, 80.0, types=("BFLOAT8_B",) * 3, fidelity="LoFi"),
        matmul(64, 4096, 4096, 40.0, types=bfp4, fidelity="HiFi2", places=l1),
        matmul(64, 4096, 4096, 41.0, types=bfp4, fidelity="LoFi", places=l1),
        matmul(64, 2048, 2048, 30.0, types=("BFLOAT16", "BFLOAT16", "BFLOAT4_B"),
               fidelity="HiFi2", attributes=_BLOCKS.format(4, 1, 4)),
        matmul(64, 2048, 2048, 30.0, types=("BFLOAT8_B", "BFLOAT8_B", "BFLOAT4_B"),
               fidelity="LoFi", attributes=_BLOCKS.format(4, 2, 4)),
        matmul(64, 2048, 2048, 30.0, types=("UINT32", "BFLOAT16", "BFLOAT16")),
        matmul(64, 2048, 2048, 30.0, types=("UINT16", "UINT16", "FLOAT32")),
        matmul(32, 8192, 8192, 270.0, types=bfp8, fidelity="HiFi2", places=l1, CORE__COUNT=36,
               attributes="'program_config': '" + sharded.format(1) + "'"),
        matmul(32, 8192, 8192, 900.0, types=bfp8, fidelity="HiFi2", places=l1,
               attributes="'program_config': '" + sharded.format(8) + "'"),
        matmul(2048, 2048, 2048, 330.0, CORE__COUNT=56, fidelity="HiFi4"),
        matmul(128, 128, 128, 9.0, code="MinimalMatmulOp",
               attributes="'program_config': 'Cfg(in0_block_w=2)'"),
        matmul(128, 128, 128, 0.0),
        matmul(128, 128, 128, None),
        matmul(256, 256, 256, 12.0) | {"INPUT_0_Y_PAD[LOGICAL]": "oops"},
        op("Conv2dDeviceOperation", 55.0, inputs=(("1x1x1024x32", "BFLOAT16", "L1_HEIGHT_SHARDED"),
           ("1x1x288x64", "BFLOAT8_B", "DRAM_INTERLEAVED")), MATH__FIDELITY="HiFi2",
           output=("1x1x1024x64", "BFLOAT16", "L1_HEIGHT_SHARDED"), ATTRIBUTES=_CONV),
        op("OptimizedConvNew", 55.0, inputs=(("1x1x1024x32", "BFLOAT16", "L1_HEIGHT_SHARDED"),
           ("1x1x288x64", "BFLOAT8_B", "DRAM_INTERLEAVED")), MATH__FIDELITY="LoFi",
           output=("1x1x1024x64", "BFLOAT16", "L1_HEIGHT_SHARDED"), ATTRIBUTES="{'a': 'b'}"),
        op("HaloDeviceOperation", 8.0, ATTRIBUTES=_CONV),
        op("HaloDeviceOperation", 8.0),
        host_op(),
        op("UnaryDeviceOperation", 5.0, 3000.0),
        op("TypecastDeviceOperation", 4.0, -2.0),
        op("CopyDeviceOperation", -4.0, 1.0),
        op("MoveDeviceOperation", 4.0, 1500.0),
        op("BinaryNgDeviceOperation", 20.0, -3000.0),
        op("SomethingNewDeviceOperation", 5.0, 0.0, CORE__COUNT=0),
    ]  # fmt: skip
    two = [
        row
        for name, us, slower in (
            ("UnaryDeviceOperation", 10.0, 2.0),
            ("AllGatherAsync", 30.0, 8.0),
            ("Matmul", 100.0, -5.0),
            ("ReduceScatterMinimalAsync", 44.0, 1.0),
            ("TransposeDeviceOperation", 12.0, 0.0),
        )
        for row in (_on(0, name, us), _on(1, name, us + slower))
    ]
    uneven = [*two[:3], _on(1, "CopyDeviceOperation", 3.0), *two[3:], _on(0, "ReshapeView", 2.0)]
    sparse_inputs = "'nnz': '{}'; 'is_input_a_sparse': '{}'; 'is_input_b_sparse': '{}'"
    sub = [
        matmul(32, 512, 512, 30.0, batch=8, code="SparseMatmulDeviceOperation",
               attributes="{" + sparse_inputs.format(nnz, a, b) + "}",
               **{"SUB__DEVICE__ID": sub, "AVAILABLE__WORKER__CORE__COUNT": cores})
        for nnz, a, b, sub, cores in (
            ("6", "false", "true", "0", 40), ("std::nullopt", "false", "true", "1", 24),
            ("std::nullopt", "true", "true", "", 64), ("std::nullopt", "true", "false", "1.5", ""),
        )
    ]  # fmt: skip
    replay = [
        op("UnaryDeviceOperation", 10.0, HOST__START__TS=2_000_000),
        op("TypecastDeviceOperation", 20.0, HOST__START__TS=2_100_000),
        *step("step_compile", [op("CopyDeviceOperation", 3.0)]),
        *step(
            "step_steady_1",
            [
                op("UnaryDeviceOperation", 11.0) | {"METAL TRACE REPLAY SESSION ID": "1"},
                op("BinaryNgDeviceOperation", 21.0) | {"METAL TRACE REPLAY SESSION ID": "1"},
            ],
        ),
    ]
    located = ("LOC", "CONST_EVAL_OP", "PROGRAM_METADATA")
    places = (
        'loc("train.py":14:5)',
        'loc(callsite("aten__mm"("model.py":7:1) at "train.py":15:1))',
        'loc(fused["train.py":14:5; "train.py":15:9])',
        "loc(unknown)",
        "",
    )
    with_places = step(
        "step_steady_1",
        [
            op("UnaryDeviceOperation", 10.0 + i) | {"LOC": place, "CONST_EVAL_OP": flag}
            for i, (place, flag) in enumerate(
                [*((p, "false") for p in places), (places[0], "true")]
            )
        ],
    )
    v1 = header("v1")
    return {
        "training_v2_1.csv": text(training),
        "models_v2_1.csv": text(models),
        "v2_plain.csv": text([op(version="v2"), *training_v2()], header("v2")),
        "two_devices_v1.csv": text(two, v1),
        "uneven_devices_v1.csv": text(uneven, v1),
        "sub_devices.csv": text(sub),
        "replay.csv": text(replay),
        "locations.csv": text(with_places, header("v2.1", located)),
    }


def training_v2() -> list[Row]:
    """A v2 file names no architecture."""
    first = ("1x2x256x128", "BFLOAT16", "DRAM_INTERLEAVED")
    second = ("1x2x128x64", "BFLOAT8_B", "L1_INTERLEAVED")
    out = ("1x2x256x64", "BFLOAT16", "DRAM_INTERLEAVED")
    return [
        op("Matmul", 15.0, inputs=(first, second), output=out, version="v2")
        | {"MATH FIDELITY": "HiFi2"},
        signpost("Performance pass"),
        host_op("(torch) aten::mul"),
        op("ReshapeViewDeviceOperation", 9.0, 20.0, version="v2"),
    ]


def _on(device: int, code: str, us: float) -> Row:
    big = (("1x1x256x256", "BFLOAT16", "DRAM_INTERLEAVED"),) * 2
    more = {"MATH FIDELITY": "HiFi4"} if code == "Matmul" else {}
    return op(code, us, 2.0, version="v1", device=device, inputs=big, output=big[0]) | more


if __name__ == "__main__":
    FIXTURES.mkdir(parents=True, exist_ok=True)
    for name, content in fixtures().items():
        (FIXTURES / name).write_text(content, encoding="utf-8", newline="")
