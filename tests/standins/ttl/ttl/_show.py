"""Stand-in: prints in the shapes of tt-lang's profilers, old or new, and writes the device log."""

import json
import os
from collections import defaultdict
from pathlib import Path

from ttl._core import TILE_BYTES, options

MHZ = 1000
DRAM_BYTES_A_CYCLE = 250
COLUMNS = (
    "PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, "
    "run host ID, trace id, trace id count, zone name, type, source line, source file, meta data"
)
RESET, RED, DIM = "\033[0m", "\033[91m", "\033[2m"


def enabled(name):
    return os.environ.get(name) == "1"


def after(run):
    """What tt-lang does after a kernel has run."""
    if not enabled("TT_METAL_DEVICE_PROFILER") or "silent" in options():
        return
    for _ in range(2 if "twice" in options() else 1):
        text = _everything(run)
        if "die" in options():
            print(text[: len(text) * 2 // 3], flush=True)
            os._exit(7)
        print(text, flush=True)
    if enabled("TTLANG_PERF_SERV"):
        print("  Press Enter to stop the server...", flush=True)
        while True:
            os.read(os.open("/dev/tty", os.O_RDONLY), 1)


def _everything(run):
    home = os.environ.get("TT_METAL_HOME", "")
    if not home:
        if enabled("TTLANG_AUTO_PROFILE"):
            return "[Auto-profile] TT_METAL_HOME not set, cannot find profile CSV"
        raise ValueError("TTLANG_PERF_DUMP=1 requires TT_METAL_HOME to be set")
    _write_device_log(run, Path(home) / "generated" / "profiler" / ".logs")
    parts = []
    if enabled("TTLANG_AUTO_PROFILE"):
        parts.append(_auto(run))
    if enabled("TTLANG_PERF_DUMP"):
        if not enabled("TT_METAL_DEVICE_PROFILER_NOC_EVENTS"):
            raise ValueError("Ensure TT_METAL_DEVICE_PROFILER_NOC_EVENTS=1 is set")
        parts += [_perf(run), _flow(run), '=== PIPE GRAPH ===\n{"pipes": []}\n']
    if enabled("TTLANG_SIGNPOST_PROFILE"):
        parts.append(_signposts(run))
    return "\n".join(parts)


def _cycles(count):
    us = count / MHZ
    time = f"{us / 1000:.2f} ms" if us >= 1000 else f"{us:.1f} us"
    return f"{count:,} cycles ({time})"


def _amount(count):
    if count >= 1 << 20:
        return f"{count / (1 << 20):.1f} MB"
    return f"{count / 1024:.1f} KB" if count >= 1024 else f"{count} B"


def _perf(run):
    old = "old" in options()
    longest = max(t.cycles for t in run.threads) or 1
    reads, writes = (run.transfers[d] * run.cores for d in ("read", "write"))
    moved = (reads + writes) * TILE_BYTES
    longest = max(longest, moved // DRAM_BYTES_A_CYCLE)
    unit = "cores" if old else "nodes"
    lines = [
        "=== NOC PROFILER SUMMARY ===" if old else "=== PERF SUMMARY ===",
        f"arch: wormhole_b0, freq: {MHZ} MHz, max_compute_cores: 64",
        "programs: 1 (listed in dispatch order, includes ttnn ops)",
        "",
        f"--- Program 1024 ({run.function.__name__}) ---",
        f"grid: {run.grid[0]}x{run.cores // run.grid[0]} ({run.cores} {unit})",
        f"duration: {_cycles(longest + 80)}",
        f"  DRAM read:      {_amount(reads * TILE_BYTES):>10}  ({reads} transfers)",
        f"  DRAM write:     {_amount(writes * TILE_BYTES):>10}  ({writes} transfers)",
        f"  effective BW:   {moved / longest * MHZ / 1000:.1f} GB/s (total payload / duration)",
        f"  transfer size:  {_amount(TILE_BYTES)} (uniform)",
        f"  barriers:       {run.barriers['read'] * run.cores} read (1 per 1 reads), "
        f"{run.barriers['write'] * run.cores} write (1 per 1 writes)",
        f"  noc reads:      NOC_0={reads}",
        f"  noc writes:     NOC_1={writes}",
        "  DRAM channels:  12",
        "  kernel time:",
    ]
    for thread in run.threads:
        low = thread.cycles
        name = f"{thread.risc}:" if old else thread.risc
        high = f" - {_cycles(low + 60)}" if run.cores > 1 else ""
        lines.append(f"    {name:<8} {_cycles(low)}{high}")
    return "\n".join(lines) + "\n"


def _flow(run):
    buffers = [
        {"cb_index": b.index, "consumers": b.consumers, "dma_ops": b.copies,
         "producers": b.producers, "wait_ops": []}
        for b in run.buffers
    ]  # fmt: skip
    title = "CB" if "old" in options() else "DFB"
    return f"=== {title} FLOW GRAPH ===\n{json.dumps({'circular_buffers': buffers})}\n"


def _auto(run):
    rule = "=" * 100
    longest = max(t.cycles for t in run.threads) or 1
    source = Path(run.function.__code__.co_filename).read_text(encoding="utf-8").splitlines()
    lines = ["", rule, "TTLANG AUTO-PROFILE REPORT", rule, ""]
    lines += [f"Longest thread: {longest:,} cycles", ""]
    for thread in run.threads:
        total = thread.cycles
        lines += [
            rule,
            f"THREAD: {thread.risc:<10} [{thread.name}] ({len(thread.zones)} ops, "
            f"{total:,} cycles, {100 * total / longest:.1f}% of total)",
            rule,
            "",
            f"{'LINE':<6} {'%TIME':<7} {'CYCLES':<10} SOURCE",
            f"{'-' * 6} {'-' * 7} {'-' * 10} {'-' * 70}",
            *_table(thread, source, total or 1),
            "",
        ]
    lines += [rule, "THREAD SUMMARY", rule]
    for thread in run.threads:
        total = thread.cycles
        lines.append(
            f"  {thread.risc:<12}{f'[{thread.name}]':>20} {total:>10,} cycles "
            f"({len(thread.zones):>3} ops) [{100 * total / longest:>5.1f}%]"
        )
    lines += ["", *_roofline(run), rule, ""]
    return "\n".join(lines)


def _table(thread, source, whole):
    by_line = defaultdict(lambda: defaultdict(list))
    for line, operation, cycles in thread.zones:
        by_line[line][operation].append(cycles)
    hottest = max(by_line, key=lambda n: sum(map(sum, by_line[n].values())), default=0)
    first, last = min(by_line, default=1), max(by_line, default=0)
    for number in range(first, last + 1):
        text = source[number - 1] if number <= len(source) else ""
        if number not in by_line:
            if text.strip():
                yield f"{number:<6} {'':7} {'':10} {text}"
            continue
        parts = by_line[number]
        total = sum(map(sum, parts.values()))
        color = RED if number == hottest else ""
        share = 100 * total / whole
        if set(parts) == {"store"}:
            values = parts["store"]
            stats = f"(x{len(values)}, avg={total / len(values):.1f}, total={total:,})"
            span = f"{min(values):,}-{max(values):,}"
            head = f"{color}{number:<6} {share:>5.1f}%  {span:<10} {text}"
            yield f"{head}  {RESET}{DIM}{stats}{RESET}"
            continue
        yield f"{color}{number:<6} {share:>5.1f}%  {total:<10,} {text}{RESET if color else ''}"
        for at, (operation, values) in enumerate(parts.items()):
            arrow = "╰─" if at == len(parts) - 1 else "├─"
            name = operation.removeprefix("implicit_")
            label = f"{name} (implicit)" if name != operation else name
            many = f" (x{len(values)})" if len(values) > 1 else ""
            yield f"{DIM}{' ' * (27 + len(text))}{arrow} {sum(values):,} {label}{many}{RESET}"


def _roofline(run):
    if "old" in options():
        return []
    work = {t.risc: t.cycles - t.waits for t in run.threads}
    memory = max((w for r, w in work.items() if not r.startswith("TRISC")), default=0)
    compute = max((w for r, w in work.items() if r.startswith("TRISC")), default=0)
    bound = "memory" if memory > compute else "compute"
    percent = round(100 * abs(memory - compute) / max(memory, compute, 1))
    lines = ["ROOFLINE ANALYSIS", "=" * 100]
    for t in run.threads:
        lines.append(f"  {t.risc:<12} {t.cycles:>10,}   - {t.waits:>10,}   = {work[t.risc]:>10,}")
    lines += ["", f"  Memory:  {memory:>10,} cycles  (NCRISC)"]
    lines += [f"  Compute: {compute:>10,} cycles  (TRISC_1)", "", f"  {percent}% {bound} bound"]
    return [*lines, "  Compute ├───────────────●────┤ Memory", ""]


def _signposts(run):
    if not run.signposts:
        return "[signpost_profile] No user-defined signpost zones found"
    rule = "=" * 80
    head = f"{'COUNT':>6} {'TOTAL':>12} {'AVG':>10} {'MIN':>10} {'MAX':>10}"
    lines = ["", rule, "SIGNPOST PROFILE", rule, "", f"  {'NAME':<8} {'THREAD':<12} {head}"]
    groups = defaultdict(list)
    for name, risc, cycles in run.signposts:
        groups[name, risc].append(cycles)
    for (name, risc), values in groups.items():
        total = sum(values)
        lines.append(
            f"  {name:<8} {risc:<12} {len(values):>6} {total:>12,} {total // len(values):>10,} "
            f"{min(values):>10,} {max(values):>10,}"
        )
    return "\n".join([*lines, "", rule, ""])


def _write_device_log(run, folder):
    folder.mkdir(parents=True, exist_ok=True)
    rows = [f"ARCH: wormhole_b0, CHIP_FREQ[MHz]: {MHZ}, Max Compute Cores: 64", COLUMNS]
    for x in range(1, run.grid[0] + 1):
        for y in range(1, run.cores // run.grid[0] + 1):
            for thread in run.threads:
                rows += _zones(thread, x, y)
    (folder / "profile_log_device.csv").write_text("\n".join([*rows, ""]), encoding="utf-8")


def _zones(thread, x, y):
    def row(time, zone, phase):
        return f"0,{x},{y},{thread.risc},1,{time},0,1024,,,{zone},{phase},1,kernel.cpp,"

    name = "TRISC-KERNEL" if thread.risc.startswith("TRISC") else f"{thread.risc}-KERNEL"
    start = time = 1000 + 10 * (x + y)
    rows = [row(time, name, "ZONE_START")]
    zones = thread.zones if enabled("TTLANG_AUTO_PROFILE") else []
    for number, (line, operation, cycles) in enumerate(zones[:125]):
        zone = f"line_{line}_{operation}"
        rows.append(row(time, zone, "ZONE_START"))
        time += cycles
        if "drop" not in options() or number % 5 != 4:
            rows.append(row(time, zone, "ZONE_END"))
    return [*rows, row(max(time, start + thread.cycles), name, "ZONE_END")]
