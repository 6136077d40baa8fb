"""The stand-in's part inside the profiled process: messages to the capture program, device log.

Failures shown here (STANDIN_TRACY_FAIL): lock, ethernet, trace, shape, region, oom, overflow,
markers, no-ops, no-data.
"""

# ruff: noqa: PTH103, PTH118, PTH123
import atexit
import json
import os
import socket
import sys
import threading
import time

from tracy import FAIL, WAIT_S, report

_messages = []  # type: list
_operations = []  # type: list
_zones = []  # type: list
_connection = []  # type: list
_connected = threading.Event()
_window = {}  # type: dict
_raised = {
    "ethernet": "Timeout waiting for Ethernet core service remote IO request.",
    "trace": "TT_FATAL: !trace_id_.has_value() (assert.hpp:104)",
    "shape": "Host tensor has different shape",
    "region": "Creating trace buffers of size 73400320B on MeshDevice 1, but only 0B is allocated",
    "oom": "Out of Memory: Not enough space to allocate 268435456 B DRAM buffer across 12 banks",
}


def message(text):
    """Send a message to the capture program when it connects; gives its time in ns."""
    _messages.append((text, time.monotonic_ns()))
    return _messages[-1][1]


def step_marker(header, now):
    """Make up the operations of a step when its second signpost comes."""
    if FAIL in _raised:
        raise RuntimeError(_raised[FAIL])
    if FAIL == "no-ops":
        return
    if header.endswith("_start"):
        _window["start"] = _window["begun"] = now
        if "end" in _window:
            _operations.extend(report.update_operations(_window["end"], now))
    elif header.endswith("_end") and "start" in _window:
        name = header[: -len("_end")]
        _operations.extend(report.step_operations(name, _window.pop("start"), now))
        _window["end"] = now
        if os.environ.get("STANDIN_TRACY_CRANK"):
            _zones.extend(report.crank_zones(name, _window["begun"], now))


def start():
    """Listen for the capture program; called once, before the script."""
    if FAIL == "lock":
        pid = os.environ.get("STANDIN_LOCK_PID", "4242")
        print(
            f"Waiting for lock 'CHIP_IN_USE_0_PCIe' which is currently held by thread TID: {pid}, "
            f"PID: {pid}",
            flush=True,
        )
        threading.Event().wait()
    atexit.register(_finish)
    if FAIL == "no-data":
        return
    server = socket.socket()
    try:
        server.bind(("127.0.0.1", int(os.environ["TRACY_PORT"])))
    except OSError:  # somebody else has the port: nobody will ever connect to us
        return
    server.listen(1)

    def accept():
        _connection.append(server.accept()[0])
        _connected.set()

    threading.Thread(target=accept, daemon=True).start()


def _finish():
    folder = os.path.join(os.environ["TT_METAL_PROFILER_DIR"], ".logs")
    os.makedirs(folder, exist_ok=True)
    kept = _operations
    limit = int(os.environ.get("TT_METAL_PROFILER_PROGRAM_SUPPORT_COUNT", "1000"))
    overflow = len(kept) > limit and os.environ.get("TT_METAL_PROFILER_MID_RUN_DUMP") != "1"
    if overflow or FAIL == "overflow":
        kept = kept[:limit] if overflow else kept[: len(kept) // 2]
        print(
            "Profiler DRAM buffers were full, markers were dropped! device 0, worker core 1, 2, "
            "Risc BRISC,  bufferEndIndex = 12000",
            file=sys.stderr,
        )
    if FAIL == "markers":
        print("End marker BRISC-FW found without a corresponding start marker", file=sys.stderr)
    with open(os.path.join(folder, "profile_log_device.csv"), "w") as stream:
        stream.write("ARCH: wormhole_b0, CHIP_FREQ[MHz]: 1000, Max Compute Cores: 64\n")
        stream.writelines(json.dumps(operation) + "\n" for operation in kept)
    if FAIL == "no-data" or not _connected.wait(WAIT_S):
        return
    with _connection[0] as connection:
        for text, stamp in _messages:
            connection.sendall((json.dumps(["message", text, stamp]) + "\n").encode())
        for zone in _zones:
            connection.sendall((json.dumps(["zone", *zone]) + "\n").encode())
        for operation in _operations:
            connection.sendall((json.dumps(["operation", operation["count"]]) + "\n").encode())
