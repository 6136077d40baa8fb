"""The fork server, one for all tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.shapes.forks import Forks


@pytest.fixture(scope="session")
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    pytest.importorskip("torch", reason="needs torch: make test installs it")
    server = Forks(tmp_path_factory.mktemp("forks"))
    yield server
    server.close()
