"""Stand-in for ttnn with its real-time profiler: nothing of it is a device, no time is real.

What it keeps of ttnn 0.81.1: the names in ``ttnn.device``; batches with ``records`` and ``dropped``
on a thread of its own, some time after a program has ended; records that are dead when the callback
returns; no answer but a crash without an open device.
"""

import threading
import time

from ttnn import device

OPEN = []
#: What a program takes on the device, in milliseconds.
PROGRAM_MS = 2.0


class MeshDevice:
    def __init__(self):
        self.ticks = 1000
        OPEN.append(self)

    def arch(self):
        return "Arch.WORMHOLE_B0"

    def get_num_devices(self):
        return 1


def open_device(device_id=0):
    return MeshDevice()


def close_device(opened):
    OPEN.remove(opened)


def synchronize_device(opened):
    """What a program takes has passed on the host when it is waited for."""


def run(opened, name, chip=0, ms=PROGRAM_MS):
    """A program of one kernel: its record comes a little later."""
    start, opened.ticks = opened.ticks, opened.ticks + int(ms * 1e6)
    record = device.Record(chip, start, opened.ticks, name)
    threading.Timer(0.02, device.deliver, [record]).start()
    time.sleep(ms / 1000)
