"""Makes up device operations and writes the stand-in's ops_perf_results CSV.

The same step always gives the same operations with the same durations; only their place in time
follows the signposts.
"""

# ruff: noqa: PTH103, PTH118, PTH123
import json
import os
import random
import shutil
import time

from tracy import VERSION

TENSOR = ("W", "Z", "Y", "X", "LAYOUT", "DATATYPE", "MEMORY")
# name, cores, kernel time in ns, input shapes, output shape, attributes
FORWARD = [
    ("TilizeWithValPaddingDeviceOperation", 40, 3100, [(64, 784)], (64, 800), "{'pad_value': '0'}"),
    (
        "MatmulDeviceOperation",
        48,
        15400,
        [(64, 800), (800, 512)],
        (64, 512),
        "{'bcast_batch': '1'}",
    ),
    ("BinaryNgDeviceOperation", 64, 2900, [(64, 512), (32, 512)], (64, 512), "{'op': 'ADD'}"),
    ("UnaryDeviceOperation", 64, 2500, [(64, 512)], (64, 512), "{'op_chain': 'RELU'}"),
    ("MatmulDeviceOperation", 8, 9800, [(64, 512), (512, 32)], (64, 32), "{'bcast_batch': '1'}"),
    ("SoftmaxDeviceOperation", 2, 4700, [(64, 32)], (64, 32), "{'dim': '3'}"),
    ("ReduceDeviceOperation", 2, 3300, [(64, 32)], (32, 32), "{'math_op': 'SUM'}"),
]
BACKWARD = [
    ("BinaryNgDeviceOperation", 2, 2800, [(64, 32), (64, 32)], (64, 32), "{'op': 'SUB'}"),
    ("TransposeDeviceOperation", 8, 3700, [(512, 32)], (32, 512), "{'dim': 'WH'}"),
    ("MatmulDeviceOperation", 16, 10600, [(64, 32), (32, 512)], (64, 512), "{'bcast_batch': '1'}"),
    ("BinaryNgDeviceOperation", 64, 3000, [(64, 512), (64, 512)], (64, 512), "{'op': 'MUL'}"),
    ("TransposeDeviceOperation", 25, 4100, [(64, 800)], (800, 64), "{'dim': 'WH'}"),
    (
        "MatmulDeviceOperation",
        56,
        21300,
        [(800, 64), (64, 512)],
        (800, 512),
        "{'bcast_batch': '1'}",
    ),
    ("ReduceDeviceOperation", 16, 3600, [(64, 512)], (32, 512), "{'math_op': 'SUM'}"),
    ("ReshapeViewDeviceOperation", 16, 2200, [(32, 512)], (1, 512), "{}"),
    ("TypecastDeviceOperation", 64, 2400, [(800, 512)], (800, 512), "{'out': 'FLOAT32'}"),
    ("SliceDeviceOperation", 4, 1900, [(800, 512)], (784, 512), "{}"),
    ("UntilizeDeviceOperation", 64, 3900, [(800, 512)], (800, 512), "{}"),
]
UPDATE = [
    ("BinaryNgDeviceOperation", 64, 3100, [(800, 512), (1, 32)], (800, 512), "{'op': 'MUL'}"),
    ("BinaryNgDeviceOperation", 64, 5200, [(800, 512), (800, 512)], (800, 512), "{'op': 'SUB'}"),
]
FIRMWARE_NS = 700  # around each kernel
SCALE = float(os.environ.get("STANDIN_TRACY_SCALE", "1"))
HIFI = ("MatmulDeviceOperation", "SoftmaxDeviceOperation", "ReduceDeviceOperation")
_count = [0]


def step_operations(name, start, end):
    """The operations between two signposts, times in ns."""
    templates = FORWARD + BACKWARD
    wanted = int(os.environ.get("STANDIN_TRACY_PROGRAMS", len(templates)))
    chosen = [templates[index % len(templates)] for index in range(wanted)]
    return _placed(chosen, start, end, random.Random(name))


def crank_zones(name, start, end):
    """tt-crank's zones of a step: name, begin and length in ns; a program is compiled but once."""
    sixth = (end - start) // 6
    run = [("tt_crank::ExecutionPayload::run", start + 3 * sixth, 2 * sixth)]
    if not name.endswith("_compile"):
        return run
    lowered = ("tt_crank::ttir_to_ttnn_pipeline", start + sixth // 2, sixth)
    return [lowered, ("tt_crank::ttnn_to_flatbuffer", start + 2 * sixth, sixth // 2), *run]


def update_operations(start, end):
    """The optimizer's operations between two steps."""
    return _placed(UPDATE, start, end, random.Random("update"))


def _placed(templates, start, end, chance):
    pitch = (end - start) // (len(templates) + 1)
    made = []
    free = start
    for index, (name, cores, time_ns, inputs, output, attributes) in enumerate(templates, 1):
        _count[0] += 1
        kernel = int(time_ns * chance.uniform(0.97, 1.03) * SCALE)
        host = start + index * pitch
        begin = max(host + 20000, free)  # a short step: the device runs behind the host
        free = begin + kernel + FIRMWARE_NS + 400
        made.append(
            {
                "count": _count[0],
                "name": name,
                "cores": cores,
                "kernel": kernel,
                "host": host,
                "start": begin,
                "inputs": inputs,
                "output": output,
                "attributes": attributes,
            }
        )
    return made


def header():
    """The columns; older versions know neither padding nor the architecture."""
    padded = VERSION >= (0, 72)
    names = ["OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID"]
    names += ["DEVICE ARCH"] if padded else []
    names += ["ATTRIBUTES", "MATH FIDELITY", "CORE COUNT"]
    names += ["AVAILABLE WORKER CORE COUNT"] if padded else []
    names += ["PARALLELIZATION STRATEGY", "HOST START TS", "HOST END TS", "HOST DURATION [ns]"]
    names += ["DEVICE FW START CYCLE", "DEVICE FW END CYCLE", "OP TO OP LATENCY [ns]"]
    names += ["OP TO OP LATENCY BR/NRISC START [ns]", "DEVICE FW DURATION [ns]"]
    names += ["DEVICE KERNEL DURATION [ns]", "DEVICE KERNEL DURATION DM START [ns]"]
    names += [
        f"DEVICE {core} KERNEL DURATION [ns]"
        for core in ("BRISC", "NCRISC", "TRISC0", "TRISC1", "TRISC2", "ERISC")
    ]
    for tensor in ("INPUT_0", "INPUT_1", "OUTPUT_0"):
        for part in TENSOR:
            logical = "_PAD[LOGICAL]" if padded and len(part) == 1 else ""
            names.append(f"{tensor}_{part}{logical}")
    names += ["METAL TRACE ID", "METAL TRACE REPLAY SESSION ID"]
    names += ["COMPUTE KERNEL SOURCE", "COMPUTE KERNEL HASH"]
    names += ["DATA MOVEMENT KERNEL SOURCE", "DATA MOVEMENT KERNEL HASH"]
    names += ["PM IDEAL [ns]", "PM COMPUTE [ns]", "PM BANDWIDTH [ns]", "PM REQ I BW", "PM REQ O BW"]
    names += ["PM FPU UTIL (%)", "NOC UTIL (%)", "DRAM BW UTIL (%)", "NPE CONG IMPACT (%)"]
    return names


def operation_row(operation, previous_end):
    """One device operation as a row; times in ns, the clock runs at 1 GHz."""
    kernel = operation["kernel"]
    start, firmware = operation["start"], kernel + FIRMWARE_NS
    latency = 0 if previous_end is None else start - previous_end
    row = {
        "OP CODE": operation["name"],
        "OP TYPE": "tt_dnn_device",
        "GLOBAL CALL COUNT": operation["count"] << 10,
        "DEVICE ID": 0,
        "DEVICE ARCH": "wormhole_b0",
        "ATTRIBUTES": operation["attributes"],
        "MATH FIDELITY": "HiFi4" if operation["name"] in HIFI else "",
        "CORE COUNT": operation["cores"],
        "AVAILABLE WORKER CORE COUNT": 64,
        "HOST START TS": operation["host"],
        "HOST END TS": operation["host"] + 9000,
        "HOST DURATION [ns]": 9000,
        "DEVICE FW START CYCLE": start,
        "DEVICE FW END CYCLE": start + firmware,
        "OP TO OP LATENCY [ns]": latency,
        "OP TO OP LATENCY BR/NRISC START [ns]": latency,
        "DEVICE FW DURATION [ns]": firmware,
        "DEVICE KERNEL DURATION [ns]": kernel,
        "DEVICE KERNEL DURATION DM START [ns]": kernel - 200,
        "DEVICE BRISC KERNEL DURATION [ns]": kernel - 30,
        "COMPUTE KERNEL SOURCE": "['standin.cpp']",
        "DATA MOVEMENT KERNEL SOURCE": "['standin_reader.cpp'; 'standin_writer.cpp']",
        "PM IDEAL [ns]": max(1, kernel // 20),
        "PM COMPUTE [ns]": max(1, kernel // 20),
        "PM BANDWIDTH [ns]": 1,
        "PM REQ I BW": "[]",
        "PM REQ O BW": "[]",
        "PM FPU UTIL (%)": 5.0,
    }
    tensors = {f"INPUT_{index}": shape for index, shape in enumerate(operation["inputs"])}
    tensors["OUTPUT_0"] = operation["output"]
    for tensor, shape in tensors.items():
        row.update(_tensor_cells(tensor, shape))
    return row


def _tensor_cells(tensor, shape):
    cells = {}
    for part, size in zip("WZYX", (1, 1, *shape)):  # noqa: B905 - 3.8
        if VERSION >= (0, 72):
            cells[f"{tensor}_{part}_PAD[LOGICAL]"] = f"{size}[{size}]"
        else:
            cells[f"{tensor}_{part}"] = size
    cells[f"{tensor}_LAYOUT"] = "TILE"
    cells[f"{tensor}_DATATYPE"] = "BFLOAT16"
    cells[f"{tensor}_MEMORY"] = "DEV_0_DRAM_INTERLEAVED"
    return cells


def signpost_row(text, stamp):
    """A signpost as a row: all else is blank."""
    lines = text.strip("`").split("\n")
    name = lines[0].split(": ")[-1].replace(",", ";")
    return {
        "OP CODE": name,
        "OP TYPE": "signpost",
        "ATTRIBUTES": lines[1].replace(",", ";") if len(lines) > 1 else "",
        "HOST START TS": stamp,
    }


def write(out, name_append):
    """Make the report from ``.logs``; raises as the real one does when device data is missing."""
    logs = os.path.join(out, ".logs")
    with open(os.path.join(logs, "tracy_profile_log_host.tracy")) as stream:
        events = [json.loads(line) for line in stream]
    with open(os.path.join(logs, "profile_log_device.csv")) as stream:
        operations = [json.loads(line) for line in stream.readlines()[1:]]
    known = {operation["count"] for operation in operations}
    for event in events:
        if event[0] == "operation" and event[1] not in known:
            raise AssertionError(
                f"Device data missing: Op {event[1] << 10} not present in "
                "cpp_device_perf_report.csv for device 0"
            )
    stamp = time.strftime("%Y_%m_%d_%H_%M_%S")
    folder = os.path.join(out, "reports", *([name_append] if name_append else []), stamp)
    os.makedirs(folder, exist_ok=True)
    if not operations:
        return None
    rows = []
    previous_end = None
    for operation in operations:
        rows.append(operation_row(operation, previous_end))
        previous_end = operation["start"] + operation["kernel"] + FIRMWARE_NS
    rows += [signpost_row(event[1], event[2]) for event in events if event[0] == "message"]
    rows.sort(key=lambda row: row["HOST START TS"])
    names = header()
    path = os.path.join(
        folder, "ops_perf_results_{}{}.csv".format(f"{name_append}_" if name_append else "", stamp)
    )
    with open(path, "w") as stream:
        stream.write(",".join(names) + "\n")
        for row in rows:
            # no quotes: the real writer replaces commas instead
            cells = [str(row.get(name, "")).replace(",", ";") for name in names]
            stream.write(",".join(cells) + "\n")
    for name in ("tracy_profile_log_host.tracy", "profile_log_device.csv"):
        shutil.copyfile(os.path.join(logs, name), os.path.join(folder, name))
    return path
