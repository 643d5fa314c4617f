import pytest_asyncio

from kubewright.testing import VirtualClock

from .workshop import Workshop


@pytest_asyncio.fixture
async def shop(clock: VirtualClock):  # type: ignore[no-untyped-def]
    workshop = Workshop(clock)
    await workshop.open()
    yield workshop
    await workshop.close()
