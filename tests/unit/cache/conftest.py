"""A client of a server that the test scripts."""

import pytest
from tests.unit.scripted import Server

from kubewright.client._client import Client
from kubewright.testing import VirtualClock


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def client(server: Server, clock: VirtualClock) -> Client:
    return Client(transport=server, clock=clock)
