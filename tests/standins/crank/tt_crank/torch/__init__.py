"""Importing this registers the device `tt`, the module `torch.tt` and the dynamo backend `tt`."""

import torch

torch.__future__.set_swap_module_params_on_conversion(True)

from . import _device, _kernels  # noqa: E402

_device.register()
_LIBRARIES = _kernels.register()

from . import _compile  # noqa: E402

_compile.register()
