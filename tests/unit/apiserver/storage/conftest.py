"""Fixtures for both kinds of store, which have the same guarantees."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from kubewright_controlplane.apiserver.storage.events import Event
from kubewright_controlplane.apiserver.storage.log import SQLiteLog
from kubewright_controlplane.apiserver.storage.store import Store

Make = Callable[..., Store]


@pytest.fixture(params=["memory", "sqlite"])
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Make]:
    """Creates the store of a test. Keyword arguments are passed to it."""
    made: list[Store] = []

    def make_one(**settings: int) -> Store:
        log = SQLiteLog(tmp_path) if request.param == "sqlite" else None
        made.append(Store(log=log, **settings))
        return made[0]

    yield make_one
    for store in made:
        await store.close()


@pytest.fixture
async def store(make: Make) -> Store:
    return make()


def put(store: Store, key: str, data: bytes = b"{}", resource: str = "pods", **labels: str) -> Event:
    return store.put(resource, key, data, labels, {})
