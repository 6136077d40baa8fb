"""Random rows with the oddities of real and corrupt traces, reproducible by seed."""

from __future__ import annotations

import random

from tests.analysis.ops_rows import Row, header, host_op, matmul, op, signpost, text

_CODES = (
    *("UnaryDeviceOperation", "AllGatherAsync", "ReduceScatterDeviceOperation", "Where"),
    *("HaloDeviceOperation", "MorehAdamOperation", "CopyDeviceOperation"),
    *("InterleavedToSharded extra", "SoftmaxDeviceOperation", "TransposeDeviceOperation"),
)
_TYPES = ("BFLOAT16", "BFLOAT8_B", "BFLOAT4_B", "FLOAT32", "UINT32", "UINT16", "INT32")
_PLACES = ("DRAM_INTERLEAVED", "L1_HEIGHT_SHARDED", "L1_INTERLEAVED", "DRAM_WIDTH_SHARDED")
_FIDELITIES = ("HiFi4", "HiFi3", "HiFi2", "LoFi")
_SIZES = (32, 64, 128, 512, 1024, 4096)
_ATTRIBUTES = (
    "",
    "{'program_config': 'Cfg(in0_block_w={};out_subblock_h={};out_subblock_w={})'}",
    "{'program_config': 'Cfg(in0_block_w={})'}",
    "{'program_config': 'MatmulMultiCoreReuseMultiCastDRAMShardedProgramConfig(in0_block_w={})'}",
    "{'nnz': '{}'; 'is_input_a_sparse': 'true'}",
    "{'nnz': 'std::nullopt'; 'is_input_b_sparse': 'false'}",
    "window_hw=(3;3); stride_hw=(1;1); padding=((1; 1); (0; 0)); memory_layout=T::BLOCK; "
    "act_block_h_ntiles={}; enable_split_reader': 'true'",
    "window_hw=(x;3)",
)
_ODD_NUMBERS = ("", "-1", "1.5", "oops", "inf", "0", "1e300", "-5000000")
_ODD_CELLS = (
    "CORE COUNT", "AVAILABLE WORKER CORE COUNT", "SUB DEVICE ID", "OP TO OP LATENCY [ns]",
    "DEVICE KERNEL DURATION [ns]", "INPUT_0_X_PAD[LOGICAL]", "OUTPUT_0_Y_PAD[LOGICAL]",
)  # fmt: skip


def random_csv(seed: int) -> str:
    """One v2.1 file of some forty rows, up to three devices."""
    draw = random.Random(seed)
    devices = draw.choice((1, 1, 2, 3))
    rows: list[Row] = []
    for _ in range(draw.randint(5, 40)):
        kind = draw.random()
        if kind < 0.08:
            rows.append(signpost(draw.choice(("a", "b", "step_steady_1_start"))))
        elif kind < 0.15:
            rows.append(host_op(draw.choice(("(torch) aten::mul", "fallback (torch)"))))
        else:
            one = _device_op(draw)
            for device in range(devices):
                if draw.random() < 0.97:
                    rows.append(_on_device(draw, one, device))
    return text(rows, header())


def _device_op(draw: random.Random) -> Row:
    blocks = [draw.randint(1, 4) for _ in range(3)]
    attributes = draw.choice(_ATTRIBUTES)
    for block in blocks:
        attributes = attributes.replace("{}", str(block), 1)
    us, gap = (
        draw.choice((0.4, 7.0, 60.0, 400.0)),
        draw.choice((0.0, 1.0, 6.5, 6.6, 2000.0, -3000.0)),
    )
    types = [draw.choice(_TYPES) for _ in range(3)]
    places = [draw.choice(_PLACES) for _ in range(3)]
    sizes = [draw.choice(_SIZES) for _ in range(3)]
    if draw.random() < 0.5:
        row = matmul(
            *sizes, us, types=tuple(types), places=tuple(places), fidelity=draw.choice(_FIDELITIES),
            batch=draw.choice((1, 1, 4)), attributes=attributes,
            code=draw.choice(("Matmul", "MinimalMatmulOp", "SparseMatmulDeviceOperation",
                              "Conv2dDeviceOperation", "OptimizedConvNew")),
        )  # fmt: skip
        row["OP TO OP LATENCY [ns]"] = f"{gap * 1000:.0f}"
    else:
        row = op(draw.choice(_CODES), us, gap, ATTRIBUTES=attributes)
    row["CORE COUNT"] = str(draw.choice((1, 8, 40, 64)))
    row["AVAILABLE WORKER CORE COUNT"] = str(draw.choice((40, 64)))
    if draw.random() < 0.15:
        row[draw.choice(_ODD_CELLS)] = draw.choice(_ODD_NUMBERS)
    return row


def _on_device(draw: random.Random, row: Row, device: int) -> Row:
    mine = row | {"DEVICE ID": str(device)}
    duration = mine["DEVICE KERNEL DURATION [ns]"]
    if duration.isdecimal():
        mine["DEVICE KERNEL DURATION [ns]"] = str(int(duration) + draw.choice((0, 0, 13, 500)))
    return mine
