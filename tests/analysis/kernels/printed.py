"""Texts in the shapes that tt-lang prints, old and new, for the tests of the parsers."""

from __future__ import annotations

RULE = "=" * 100

PERF = """\
=== PERF SUMMARY ===
arch: wormhole_b0, freq: 1350 MHz, max_compute_cores: 64
programs: 2 (listed in dispatch order, includes ttnn ops)

--- Program 1024 (__demo_kernel) ---
grid: 8x7 (56 nodes)
duration: 2,225,436 cycles (1.65 ms)
  DRAM read:          5.4 MB  (2790 transfers)
  DRAM write:         5.0 MB  (2582 transfers)
  L1 read:           64.0 KB  (32 transfers)
  L1 write:           512 B  (4 transfers)
  L1 targets:     4 cores (2x2)
  L1 multicast:       2.0 KB  (1 transfers, pipe)
  effective BW:   6.7 GB/s (total payload / duration)
  transfer sizes: 64 Bx3, 2.0 KBx5369
  barriers:       57 read (1 per 49 reads), 161 write (1 per 16 writes)
  semaphores:     12 events
  noc reads:      NOC_0=2790
  noc writes:     NOC_1=2582
  DRAM channels:  16
  kernel time:
    BRISC    2,225,356 cycles (1.65 ms)
    NCRISC   2,211,871 cycles (1.64 ms) - 2,211,999 cycles (1.64 ms)
    TRISC_0  2,222,025 cycles (1.65 ms)

--- Program 1025 ---
grid: 1x1 (1 nodes)
duration: 900 cycles (0.7 us)
  DRAM read:           0 B  (0 transfers)
  DRAM write:        2.0 KB  (1 transfers)

"""

OLD_PERF = """\
=== NOC PROFILER SUMMARY ===
arch: blackhole, freq: 1000 MHz, max_compute_cores: 130
programs: 1 (listed in dispatch order, includes ttnn ops)

--- Program 7 (add) ---
grid: 1x1 (1 cores)
duration: 13,520 cycles (13.5 us)
  DRAM read:        32.0 KB  (16 transfers)
  DRAM write:       16.0 KB  (8 transfers)
  effective BW:   3.6 GB/s (total payload / duration)
  transfer size:  2.0 KB (uniform)
  barriers:       16 read (1 per 1 reads), 8 write (1 per 1 writes)
  kernel time:
    BRISC:  13,400 cycles (13.4 us) - 13,500 cycles (13.5 us)
    NCRISC: 9,000 cycles (9.0 us) - 9,000 cycles (9.0 us)

"""

AUTO = f"""
{RULE}
TTLANG AUTO-PROFILE REPORT
{RULE}

CB Colors: \x1b[48;5;24m CB[0] \x1b[0m

Total operations: 8000
Longest thread: 160,260 cycles

{RULE}
THREAD: NCRISC     [demo_read] (8000 ops, 160,260 cycles, 100.0% of total)
{RULE}

LINE   %TIME   CYCLES     SOURCE
------ ------- ---------- ----------------------------------------------------------------------
105                       def demo_read():
106      2.5%  18-50          core_x, core_y = ttl.node(dims=2)  (x192, avg=21.3, total=4,086)
107      0.4%  21-21          x = 1  \x1b[0m\x1b[2m(x2 = 42 cycles)\x1b[0m
\x1b[91m119     11.3%  18,068                     a_cb.reserve() as a_blk,\x1b[0m
\x1b[2m                                   ├─ 10,162 cb_reserve (x512)\x1b[0m
\x1b[2m                                   ├─ 7,906 cb_push (implicit) (x384)\x1b[0m
\x1b[2m                                   ╰─ 5,000 cycles waiting for DMA @ line 12 (dm)\x1b[0m
120      1.0%  1,602      tx.wait()

{RULE}
THREAD SUMMARY
{RULE}
  NCRISC               [demo_read]    160,260 cycles (8000 ops) [100.0%]
  TRISC_0           [demo_compute]     16,026 cycles ( 40 ops) [ 10.0%]

{RULE}

"""

ROOFLINE = f"""
ROOFLINE ANALYSIS
{RULE}
  Thread            Total   - Sync Waits   =       Work
  ------------ ----------   - ----------   = ----------
  NCRISC       63,914,612   - 59,101,945   =  4,812,667
  BRISC        42,058,956   - 42,009,536   =     49,420
  TRISC_1      134,709,090   -     47,751   = 134,661,339

  Memory:   4,812,667 cycles  (NCRISC)
  Compute: 134,661,339 cycles  (TRISC_1)

  96% compute bound
  Compute ├─●──────────────────────────────────────┤ Memory
          134,661,339 cycles                            4,812,667 cycles
"""

FLOW = """\
=== {name} FLOW GRAPH ===
{{"circular_buffers": [
  {{"cb_index": 1, "consumers": [], "dma_ops": [{{"direction": "write", "kernel": "dm1",
    "line": 40, "op": "copy", "thread": "noc"}}], "producers": [], "wait_ops": []}},
  {{"cb_index": 0, "consumers": [{{"kernel": "comp", "line": 20, "op": "cb_wait",
    "thread": "compute"}}], "dma_ops": [], "producers": [{{"kernel": "dm0", "line": 10,
    "op": "cb_reserve", "thread": "noc"}}], "wait_ops": []}}
]}}
"""

PIPES = '=== PIPE GRAPH ===\n{"pipes": [{"src": "(0,0)", "dst": [[1, 0], [2, 0]]}]}\n'

SIGNPOSTS_OLD = f"""
{"=" * 70}
SIGNPOST PROFILE
{"=" * 70}

  NAME         THREAD             CYCLES
  ------------ ------------ ------------
  load block   TRISC_0               600
  load block   TRISC_0               800
  math         TRISC_1             2,232

{"=" * 70}
"""

SIGNPOSTS_NEW = f"""
{"=" * 80}
SIGNPOST PROFILE
{"=" * 80}

  NAME        THREAD        COUNT        TOTAL        AVG        MIN        MAX
  ----------- ------------ ------ ------------ ---------- ---------- ----------
  store       TRISC_0          31          616         19         18         28
  broadcast   TRISC_1          31       24,436        788        719      2,535

{"=" * 80}
"""

DEVICE_LOG = """\
ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64
PCIe slot, core_x, core_y, RISC processor type, timer_id, time[cycles since reset], data, run host ID, trace id, trace id count, zone name, type, source line, source file, meta data
0,1,1,NCRISC,1,1000,0,1024,,,NCRISC-KERNEL,ZONE_START,1,k.cpp,
0,1,1,NCRISC,1,1010,0,1024,,,line_12_cb_reserve_before,ZONE_START,1,k.cpp,
0,1,1,NCRISC,1,1030,0,1024,,,line_12_cb_reserve_before,ZONE_END,1,k.cpp,
0,1,1,NCRISC,1,1040,0,1024,,,line_12_implicit_cb_push_before,ZONE_START,1,k.cpp,
0,1,1,NCRISC,1,1045,0,1024,,,line_12_implicit_cb_push_before,ZONE_END,1,k.cpp,
0,1,1,NCRISC,1,1050,0,1024,,,line_13_before,ZONE_START,1,k.cpp,
0,1,1,NCRISC,1,1200,0,1024,,,line_13_before,ZONE_END,1,k.cpp,
0,1,1,NCRISC,1,1500,0,1024,,,NCRISC-KERNEL,ZONE_END,1,k.cpp,
0,2,1,NCRISC,1,1000,0,1024,,,NCRISC-KERNEL,ZONE_START,1,k.cpp,
0,2,1,NCRISC,1,1100,0,1024,,,NCRISC-KERNEL,ZONE_END,1,k.cpp,
0,2,1,NCRISC,1,1110,0,1024,,,ttl_math,ZONE_START,1,k.cpp,
"""  # noqa: E501
