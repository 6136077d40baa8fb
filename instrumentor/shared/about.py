"""What this installation is."""

from __future__ import annotations

#: Its name for pip; `instrumentor` there is another project.
DISTRIBUTION = "tt-instrumentor"


def version() -> str:
    """The installed version; "unknown" for a checkout that is not installed."""
    from importlib import metadata

    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "unknown"
