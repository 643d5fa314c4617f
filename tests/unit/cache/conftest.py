"""A client whose server is the test."""

import pytest
from tests.unit.scripted import Server

from kubewright._runtime.clock import VirtualClock
from kubewright.client._client import Client


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server(clock: VirtualClock) -> Server:
    return Server(clock)


@pytest.fixture
def client(server: Server, clock: VirtualClock) -> Client:
    return Client(transport=server, clock=clock)
