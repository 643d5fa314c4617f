"""The pytest plugin: a control plane for the whole run, and a namespace for each test.

    async def test_a_service_comes_back(cluster: Cluster, namespace: str) -> None: ...

`--target` says which control plane: `embedded` (the default: in this process, on a thread of its own), `real` (built
by `make controlplane`, or found by KUBEBUILDER_ASSETS), or `kubeconfig` (that of $KUBECONFIG: only for clusters that
tests may write to).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

if TYPE_CHECKING or find_spec("pytest_asyncio"):
    import pytest_asyncio
else:
    from kubewright.testing import _without_asyncio as pytest_asyncio

if TYPE_CHECKING:
    from kubewright.client._config import Config
    from kubewright.testing._cluster import Cluster

T = TypeVar("T")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kubewright")
    group.addoption(
        "--target",
        choices=("embedded", "real", "kubeconfig"),
        default="embedded",
        help="the control plane that tests run against (default: embedded)",
    )


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """`embedded`, `real` or `kubeconfig`: for a test that holds on some of them alone."""
    return str(request.config.getoption("--target"))


@pytest.fixture(scope="session")
def control_plane(target: str) -> Iterator[Config]:
    """An administrator's access to the control plane of this run."""
    with _on_a_thread(_control_plane(target)) as config:
        yield config


@pytest_asyncio.fixture
async def cluster(control_plane: Config) -> AsyncIterator[Cluster]:
    """The control plane, as an administrator."""
    from kubewright.testing._cluster import connected

    async with connected(control_plane) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A namespace of the test's own; deleted after it."""
    async with cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def kubewright_kubeconfig(kubewright_config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of an administrator's kubeconfig file, for clients other than Kubewright's. Sets nothing global."""
    from kubewright.client._kubeconfig import write

    path = tmp_path_factory.mktemp("kubewright") / "kubeconfig"
    write(kubewright_config, path)
    return path


@asynccontextmanager
async def _control_plane(target: str) -> AsyncGenerator[Config]:
    from kubewright.client._config import Config

    if target == "kubeconfig":
        yield Config.from_kubeconfig()
    elif target == "real":
        from kubewright_controlplane.real import RealControlPlane

        async with RealControlPlane() as real:
            yield Config.from_kubeconfig(real.kubeconfig)
    else:
        from kubewright_controlplane.environment import Environment

        async with Environment() as embedded:
            yield embedded.config


@contextmanager
def _on_a_thread(context: AbstractAsyncContextManager[T]) -> Generator[T]:
    """Hold an asynchronous context open on an event loop of its own: it goes on whichever loop the tests use, and while
    none runs."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="kubewright-control-plane", daemon=True)
    thread.start()
    try:
        entered = asyncio.run_coroutine_threadsafe(context.__aenter__(), loop).result()
        try:
            yield entered
        finally:
            asyncio.run_coroutine_threadsafe(context.__aexit__(None, None, None), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
