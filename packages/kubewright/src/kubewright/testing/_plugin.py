"""The pytest plugin: a control plane for the whole run, and a namespace for each test.

    async def test_a_deleted_service_is_recreated(cluster: Cluster, namespace: str) -> None: ...

Fixtures
    cluster             the control plane, as an administrator
    namespace           a namespace of the test's own, deleted after it
    kubewright_config   how to reach the control plane, as an administrator; for the whole run
    kubewright_target   `embedded`, `real` or `kubeconfig`
Options
    --kubewright-target, $KUBEWRIGHT_TARGET
        Which control plane: `embedded` (default; in this process, in a thread of its own), `real` (built by `make
        controlplane`, or found by $KUBEBUILDER_ASSETS), or `kubeconfig` (that of $KUBECONFIG: only for clusters that
        tests may write to).
    kubewright_eventually_within, in pytest's configuration file
        Seconds that `eventually` and `gone` wait by default.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import pytest

if TYPE_CHECKING or find_spec("pytest_asyncio"):
    import pytest_asyncio
else:
    from kubewright.testing import _without_asyncio as pytest_asyncio

if TYPE_CHECKING:
    from kubewright.client._config import Config
    from kubewright.testing._cluster import Cluster

T = TypeVar("T")

TARGETS: Final = ("embedded", "real", "kubeconfig")
MISSING: Final = (
    "--kubewright-target={target} needs the package kubewright-controlplane, which is not installed; install it with: "
    "pip install 'kubewright[dev]'"
)
_TARGET: Final = "--kubewright-target"
_VARIABLE: Final = "KUBEWRIGHT_TARGET"
_WITHIN: Final = "kubewright_eventually_within"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("kubewright")
    group.addoption(
        _TARGET,
        choices=TARGETS,
        default=None,
        help=f"the control plane that tests run against (default: ${_VARIABLE}, or embedded)",
    )
    parser.addini(_WITHIN, "seconds that eventually() and gone() wait by default (default: 120)", default="")


def pytest_configure(config: pytest.Config) -> None:
    text = str(config.getini(_WITHIN))
    if not text:
        return
    from kubewright.testing._waiting import within_of_this_run

    try:
        within_of_this_run.set(float(text))
    except ValueError:
        raise pytest.UsageError(f"{_WITHIN}: must be a number of seconds, got {text!r}") from None


def target_of(config: pytest.Config) -> str:
    """Return the target of this run. Raises UsageError if $KUBEWRIGHT_TARGET has another value than `TARGETS`."""
    target = str(config.getoption(_TARGET) or os.environ.get(_VARIABLE) or "embedded")
    if target not in TARGETS:
        raise pytest.UsageError(f"${_VARIABLE}: must be one of {', '.join(TARGETS)}, got {target!r}")
    return target


@pytest.fixture(scope="session")
def kubewright_target(request: pytest.FixtureRequest) -> str:
    """The control plane of this run: `embedded`, `real` or `kubeconfig`."""
    return target_of(request.config)


@pytest.fixture(scope="session")
def kubewright_config(kubewright_target: str) -> Iterator[Config]:
    """How to reach the control plane of this run, as an administrator."""
    if kubewright_target != "kubeconfig" and importlib.util.find_spec("kubewright_controlplane") is None:
        pytest.fail(MISSING.format(target=kubewright_target), pytrace=False)
    with _on_a_thread(_control_plane(kubewright_target)) as config:
        yield config


@pytest_asyncio.fixture
async def cluster(kubewright_config: Config) -> AsyncIterator[Cluster]:
    """The control plane, as an administrator."""
    from kubewright.testing._cluster import connected

    async with connected(kubewright_config) as cluster:
        yield cluster


@pytest_asyncio.fixture
async def namespace(cluster: Cluster) -> AsyncIterator[str]:
    """A namespace of the test's own, deleted after it."""
    async with cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def kubewright_kubeconfig(kubewright_config: Config, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The path of an administrator's kubeconfig file, for clients other than Kubewright's. Sets nothing global."""
    from kubewright.client._config import write_kubeconfig

    path = tmp_path_factory.mktemp("kubewright") / "kubeconfig"
    write_kubeconfig(kubewright_config, path)
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
    """Hold an asynchronous context open on an event loop of its own, independent of the event loops of the tests."""
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
