"""A client whose server is the test."""

import pytest
from tests.unit.scripted import Server

from kubewright.client._client import Client
from kubewright.testing import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def server(clock: VirtualClock) -> Server:
    return Server(clock)


@pytest.fixture
def client(server: Server, clock: VirtualClock) -> Client:
    return Client(server, clock=clock)
