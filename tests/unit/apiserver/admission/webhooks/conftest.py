"""An API server that calls webhooks in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo
from unit.apiserver.admission.webhooks.harness import Webhooks
from unit.apiserver.harness import ADMIN, API


@pytest.fixture
def webhooks() -> Webhooks:
    """The webhooks in this process, by host."""
    return {}


@pytest.fixture
async def api(clock: VirtualClock, webhooks: Webhooks) -> AsyncIterator[API]:
    options = ServerOptions(clock=clock, tokens={"admin": ADMIN, "bob": UserInfo("bob")}, webhooks=webhooks)
    server = APIServer(options)
    await server.start()
    yield API(server, clock)
    await server.close()
