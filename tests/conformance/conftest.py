"""Fixtures of the conformance cases. They run against any API server: `--kubewright-target`."""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator

import pytest_asyncio

from conformance.hooks import Hooks
from conformance.policies import Policies
from conformance.rawapi import API, until
from kubewright.client._config import Config


@pytest_asyncio.fixture
async def api(kubewright_config: Config) -> AsyncIterator[API]:
    """An administrator."""
    api = API(kubewright_config)
    yield api
    await api.close()


@pytest_asyncio.fixture
async def ns(api: API) -> AsyncIterator[str]:
    """The path of a new namespace in which Pods can be created: `/api/v1/namespaces/<name>`."""
    name = f"conformance-{secrets.token_hex(4)}"
    (await api.post("/api/v1/namespaces", {"metadata": {"name": name}})).expect(201)

    async def has_account() -> bool:
        return (await api.get(f"/api/v1/namespaces/{name}/serviceaccounts/default")).status == 200

    await until(has_account)
    yield f"/api/v1/namespaces/{name}"
    await api.delete(f"/api/v1/namespaces/{name}")


@pytest_asyncio.fixture
async def policies(api: API, ns: str) -> AsyncIterator[Policies]:
    policies = Policies(api, ns)
    yield policies
    for path in reversed(policies.created):
        await api.delete(path)


@pytest_asyncio.fixture
async def hooks(api: API, ns: str) -> AsyncIterator[Hooks]:
    """Admission webhooks for writes in the new namespace."""
    hooks = Hooks(api, ns.rpartition("/")[2])
    await hooks.start()
    yield hooks
    await hooks.close()
