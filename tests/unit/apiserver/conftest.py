"""An API server in this process, with a clock that the test advances."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from kubewright.testing import VirtualClock
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.server import APIServer
from kubewright_controlplane.apiserver.user import UserInfo
from unit.apiserver.harness import ADMIN, API


@pytest.fixture
async def api(clock: VirtualClock) -> AsyncIterator[API]:
    server = APIServer(ServerOptions(clock=clock, tokens={"admin": ADMIN, "bob": UserInfo("bob")}, history=64))
    await server.start()
    yield API(server, clock)
    await server.close()
