"""As much of it as the shapes name."""


def mark_step(wait=False):
    pass
