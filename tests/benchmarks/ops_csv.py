"""Write an ops CSV of any size that looks like a training run: for benchmarks and fixtures.

Rows have the columns, the cell formats and the length (about 1.5 kB) of real v2.1 traces; steps of
equal ops stand between our signposts. The same arguments give the same bytes.

Usage: python tests/benchmarks/ops_csv.py OUT.csv --ops 500000 [--ops-per-step 2000]
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TENSOR_FIELDS = (
    *(f"{axis}_PAD[LOGICAL]" for axis in "WZYX"),
    "LAYOUT",
    "DATATYPE",
    "MEMORY",
)
HEADER = (
    "OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES",
    "MATH FIDELITY", "CORE COUNT", "AVAILABLE WORKER CORE COUNT", "PARALLELIZATION STRATEGY",
    "HOST START TS", "HOST END TS", "HOST DURATION [ns]", "DEVICE FW START CYCLE",
    "DEVICE FW END CYCLE", "OP TO OP LATENCY [ns]", "OP TO OP LATENCY BR/NRISC START [ns]",
    "DEVICE FW DURATION [ns]", "DEVICE KERNEL DURATION [ns]",
    "DEVICE KERNEL DURATION DM START [ns]", "DEVICE KERNEL DURATION PER CORE MIN [ns]",
    "DEVICE KERNEL DURATION PER CORE MAX [ns]", "DEVICE KERNEL DURATION PER CORE AVG [ns]",
    "DEVICE BRISC KERNEL DURATION [ns]", "DEVICE NCRISC KERNEL DURATION [ns]",
    *(f"{tensor}_{field}" for tensor in ("INPUT_0", "INPUT_1", "INPUT_2", "OUTPUT_0")
      for field in TENSOR_FIELDS),
    "METAL TRACE ID", "METAL TRACE REPLAY SESSION ID", "COMPUTE KERNEL SOURCE",
    "COMPUTE KERNEL HASH", "DATA MOVEMENT KERNEL SOURCE", "DATA MOVEMENT KERNEL HASH",
    *(f"TENSIX {risc} MAX KERNEL SIZE [B]"
      for risc in ("DM 0", "DM 1", "COMPUTE 0", "COMPUTE 1", "COMPUTE 2")),
    "PM IDEAL [ns]", "PM COMPUTE [ns]", "PM BANDWIDTH [ns]", "PM REQ I BW", "PM REQ O BW",
    "PM FPU UTIL (%)", "NOC UTIL (%)", "DRAM BW UTIL (%)", "NPE CONG IMPACT (%)",
    "PROGRAM HASH", "PROGRAM CACHE HIT",
)  # fmt: skip
_CLOCK_GHZ = 1.0
_DRAM, _L1 = "DEV_0_DRAM_INTERLEAVED", "DEV_0_L1_HEIGHT_SHARDED"
_MEMORY_CONFIG = (
    "MemoryConfig(memory_layout=TensorMemoryLayout::INTERLEAVED;buffer_type=BufferType::DRAM;"
    "shard_spec=std::nullopt;nd_shard_spec=std::nullopt;created_with_nd_shard_spec=0)"
)


@dataclass(frozen=True)
class Op:
    """One kind of op: its name, operands (rows, columns, where), and typical time."""

    code: str
    shapes: tuple[tuple[int, int], ...]
    output: tuple[int, int]
    us: float
    fidelity: str = ""
    cores: int = 64
    memory: str = _DRAM
    extra: str = ""


def layer(hidden: int = 1024, tokens: int = 2048) -> tuple[Op, ...]:
    """Forward, backward and optimizer ops of one transformer layer."""
    config = (
        "; 'program_config': 'MatmulMultiCoreReuseMultiCastProgramConfig(in0_block_w=1;"
        "out_subblock_h=1;out_subblock_w=4;per_core_M=8;per_core_N=8)'"
    )

    def matmul(m: int, k: int, n: int, us: float, extra: str = "") -> Op:
        return Op("Matmul", ((m, k), (k, n)), (m, n), us, "HiFi4", extra=extra)

    def simple(code: str, us: float, cores: int = 64, operands: int = 1) -> Op:
        return Op(code, ((tokens, hidden),) * operands, (tokens, hidden), us, "HiFi4", cores)

    forward = (
        simple("LayerNormDeviceOperation", 45.0),
        matmul(tokens, hidden, 3 * hidden, 520.0, config),
        simple("NlpCreateHeadsDeviceOperation", 30.0),
        simple("TransposeDeviceOperation", 22.0, 56),
        simple("SoftmaxDeviceOperation", 61.0),
        matmul(tokens, hidden, hidden, 190.0),
        simple("BinaryNgDeviceOperation", 18.0, operands=2),
        simple("UnaryDeviceOperation", 12.0),
        simple("ReshapeViewDeviceOperation", 35.0, 8),
    )
    backward = (
        matmul(hidden, tokens, 3 * hidden, 610.0, config),
        simple("MorehSoftmaxBackwardOperation", 55.0),
        simple("MorehLayerNormBackwardInputGradOperation", 48.0),
        simple("BinaryNgDeviceOperation", 19.0, operands=2),
        simple("TypecastDeviceOperation", 9.0),
        simple("EmbeddingBackwardDeviceOperation", 25.0, 32),
    )
    optimizer = (simple("MorehAdamWDeviceOperation", 80.0, operands=3),)
    return (*forward, *backward, *optimizer)


def rows(
    ops: int, ops_per_step: int = 2000, seed: int = 7, devices: int = 1, *, paired: bool = True
) -> Iterator[str]:
    """Lines of the file, the header first; ``ops`` rows per device of ops plus signposts.

    Args:
        paired: signposts of ours around every step; else one of somebody's own before it.
    """
    yield ",".join(HEADER)
    draw = random.Random(seed)
    # Real traces have one ATTRIBUTES text for every two to six ops of a step.
    widths = (1024, 768, 4096)
    kinds = [_cells(op, v) for v in range(12) for width in widths for op in layer(width)]
    now, cycle, count = 1_000_000, 14_000_000_000, 0
    step = 0
    while count < ops:
        name = "step_compile" if step == 0 else f"step_steady_{step}"
        yield _signpost(f"{name}_start" if paired else f"iteration {step}", now)
        for at in range(min(ops_per_step, ops - count)):
            cells, us = kinds[at % len(kinds)]
            kernel = round(us * 1000 * draw.uniform(0.97, 1.05))
            gap = draw.choice((600, 900, 1500, 8000)) if count else 0
            now += 40_000
            cycle += kernel + gap
            for device in range(devices):
                slower = kernel + 137 * device
                yield _row(cells, count + 1, device, now, cycle + device, slower, gap)
            count += 1
        now += 40_000
        if paired:
            yield _signpost(f"{name}_end", now)
        now += 40_000
        step += 1
    yield _signpost("benchmark_complete", now)


def write(
    path: Path,
    ops: int,
    ops_per_step: int = 2000,
    seed: int = 7,
    devices: int = 1,
    *,
    paired: bool = True,
) -> None:
    """Write :func:`rows` with the line ends of the real writer."""
    with path.open("w", encoding="utf-8", newline="") as file:
        for line in rows(ops, ops_per_step, seed, devices, paired=paired):
            file.write(line + "\r\n")


def _signpost(name: str, now: int) -> str:
    cells = dict.fromkeys(HEADER, "")
    cells.update({"OP CODE": name, "OP TYPE": "signpost", "HOST START TS": str(now)})
    return ",".join(cells.values())


def _cells(op: Op, variant: int) -> tuple[dict[str, str], float]:
    cells = dict.fromkeys(HEADER, "")
    attributes = (
        f"{{'compute_kernel_config': 'WormholeComputeKernelConfig(math_fidelity={op.fidelity};"
        "math_approx_mode=0;fp32_dest_acc_en=0;packer_l1_acc=0;dst_full_sync_en=0)'; "
        f"'dtype': 'DataType::BFLOAT16'; 'output_mem_config': '{_MEMORY_CONFIG}'; "
        f"'input_mem_config': '{_MEMORY_CONFIG}'; 'untilize_out': 'false'; "
        f"'user_run_batched': 'false'; 'global_cb': '{variant}'{op.extra}}}"
    )
    kernel = f"ttnn/cpp/ttnn/operations/{op.code.lower()}/device/kernels"
    cells.update(
        {
            "OP CODE": op.code,
            "OP TYPE": "tt_dnn_device",
            "DEVICE ARCH": "wormhole_b0",
            "ATTRIBUTES": attributes,
            "MATH FIDELITY": op.fidelity,
            "CORE COUNT": str(op.cores),
            "AVAILABLE WORKER CORE COUNT": "64",
            "COMPUTE KERNEL SOURCE": f"['{kernel}/compute/kernel.cpp']",
            "COMPUTE KERNEL HASH": "['kernel/10417543861042018331/']",
            "DATA MOVEMENT KERNEL SOURCE": f"['{kernel}/dataflow/reader.cpp'; "
            f"'{kernel}/dataflow/writer.cpp']",
            "DATA MOVEMENT KERNEL HASH": "['reader/1594660197397854/'; 'writer/45336027534617/']",
            "PM IDEAL [ns]": "1",
            "PM COMPUTE [ns]": "1",
            "PM BANDWIDTH [ns]": "1",
            "PROGRAM HASH": "6579250399439280527",
            "PROGRAM CACHE HIT": "True",
        }
    )
    tensors = [(f"INPUT_{i}", shape) for i, shape in enumerate(op.shapes)]
    for tensor, (height, width) in [*tensors, ("OUTPUT_0", op.output)]:
        for axis, size in zip("WZYX", (1, 1, height, width), strict=True):
            cells[f"{tensor}_{axis}_PAD[LOGICAL]"] = f"{size}[{size}]"
        cells[f"{tensor}_LAYOUT"] = "TILE"
        cells[f"{tensor}_DATATYPE"] = "BFLOAT16"
        cells[f"{tensor}_MEMORY"] = op.memory
    return cells, op.us


def _row(
    cells: dict[str, str], number: int, device: int, now: int, cycle: int, kernel: int, gap: int
) -> str:
    firmware = kernel + 700
    host = 31_000
    return ",".join(
        (
            cells
            | {
                "GLOBAL CALL COUNT": str(number << 10 | device),
                "DEVICE ID": str(device),
                "HOST START TS": str(now),
                "HOST END TS": str(now + host),
                "HOST DURATION [ns]": str(host),
                "DEVICE FW START CYCLE": str(round(cycle * _CLOCK_GHZ)),
                "DEVICE FW END CYCLE": str(round((cycle + firmware) * _CLOCK_GHZ)),
                "OP TO OP LATENCY [ns]": str(gap),
                "OP TO OP LATENCY BR/NRISC START [ns]": str(gap),
                "DEVICE FW DURATION [ns]": str(firmware),
                "DEVICE KERNEL DURATION [ns]": str(kernel),
                "DEVICE KERNEL DURATION DM START [ns]": str(kernel),
                "DEVICE BRISC KERNEL DURATION [ns]": str(kernel - 20),
                "DEVICE NCRISC KERNEL DURATION [ns]": str(kernel - 40),
            }
        ).values()
    )


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ops", type=int, default=20_000)
    parser.add_argument("--ops-per-step", type=int, default=2000)
    parser.add_argument("--devices", type=int, default=1)
    arguments = parser.parse_args()
    write(arguments.out, arguments.ops, arguments.ops_per_step, devices=arguments.devices)


if __name__ == "__main__":
    main()
