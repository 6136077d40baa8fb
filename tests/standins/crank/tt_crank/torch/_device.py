"""`torch.tt`: what tt-crank's module offers, and like it no `synchronize`."""

from __future__ import annotations

import os

import torch
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend


class _DeviceModule:
    """One logical device."""

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def is_initialized() -> bool:
        return True

    @staticmethod
    def device_count() -> int:
        return 1

    @staticmethod
    def current_device() -> int:
        return 0

    @staticmethod
    def get_amp_supported_dtype() -> list[torch.dtype]:
        return [torch.bfloat16]

    @staticmethod
    def num_chips() -> int:
        return int(os.environ.get("TT_STANDIN_CHIPS", "1"))

    @staticmethod
    def arch() -> str:
        return os.environ.get("TT_STANDIN_ARCH", "blackhole")

    @staticmethod
    def mesh_shape() -> tuple[int, int]:
        return 1, _DeviceModule.num_chips()

    # What torch itself asks of every device module when seeds are set.
    @staticmethod
    def _is_in_bad_fork() -> bool:
        return False

    @staticmethod
    def manual_seed_all(seed: int) -> None:
        pass


def register() -> None:
    """Make the device `tt` known to torch."""
    _setup_privateuseone_for_python_backend("tt", _DeviceModule)
