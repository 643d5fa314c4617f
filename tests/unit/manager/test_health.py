"""Probes, as the kubelet and a person with curl see them."""

from kubewright.http.message import Request, Response
from kubewright.manager._serving import Probes


async def get(probes: Probes, target: str, method: str = "GET") -> tuple[int, str]:
    response: Response = await probes.handle(Request(method, target))
    return response.status, (await response.read()).decode()


def broken() -> None:
    raise RuntimeError("the disk is full")


async def test_a_process_without_checks_is_alive_and_ready() -> None:
    assert await get(Probes(), "/healthz") == (200, "ok")
    assert await get(Probes(), "/readyz") == (200, "ok")


async def test_a_check_that_raises_fails_its_probe_and_says_why() -> None:
    probes = Probes()
    probes.add_readyz("disk", broken)
    assert await get(probes, "/readyz") == (500, "[-]disk failed: the disk is full\nreadyz check failed\n")
    assert await get(probes, "/healthz") == (200, "ok")


async def test_a_check_may_be_async() -> None:
    async def asks() -> None:
        broken()

    probes = Probes()
    probes.add_healthz("disk", asks)
    status, text = await get(probes, "/healthz")
    assert status == 500
    assert text.startswith("[+]ping ok\n[-]disk failed: the disk is full\n")


async def test_verbose_lists_the_checks_that_passed() -> None:
    assert await get(Probes(), "/healthz?verbose") == (200, "[+]ping ok\nhealthz check passed\n")


async def test_one_check_can_be_requested_by_name() -> None:
    probes = Probes()
    probes.add_healthz("disk", broken)
    assert await get(probes, "/healthz/ping") == (200, "ok")
    assert (await get(probes, "/healthz/disk"))[0] == 500
    assert (await get(probes, "/healthz/memory"))[0] == 404


async def test_other_paths_and_methods_are_rejected() -> None:
    assert (await get(Probes(), "/metrics"))[0] == 404
    assert (await get(Probes(), "/healthz", "POST"))[0] == 405
