"""Stand-in for torch_xla on a machine without a device: every tensor stays on the CPU."""


def sync(wait=False):
    pass
