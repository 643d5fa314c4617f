"""TLS: members and clients prove who they are, and certificates are renewed without a restart."""

import asyncio
import ssl

import pytest
from kubewright import Config, Manager
from kubewright.apis.core.v1 import Secret
from kubewright.certificates import KeyPair
from kubewright.testing import eventually

from clusters import Clusters, NewOperator
from etcd_operator import objects
from etcd_operator.api.v1.etcdcluster import TLS
from etcd_operator.etcd import Etcd, Unreachable
from mortal import Mortal
from observer import Observed, observed
from workload import under_load

pytestmark = pytest.mark.timeout(300)


async def test_members_and_clients_use_certificates_that_are_renewed(clusters: Clusters, operator: Manager) -> None:
    await clusters.create(size=1, tls=TLS(enabled=True, overlap_seconds=1))
    cluster = await clusters.settles(1)
    assert cluster.status.endpoint == f"https://main.{clusters.namespace}.svc:{objects.CLIENT_PORT}"
    await clusters.put("color", "red")
    async with clusters.connect() as known, Etcd(known.url) as stranger:
        with pytest.raises(Unreachable):
            await stranger.status()
    before = {name: pod.metadata.uid for name, pod in (await clusters.pods()).items()}
    old = await clusters.secret("main-0-tls")

    await clusters.client.delete(old)  # is made again with another key

    async def renewed() -> None:
        new = await clusters.secret("main-0-tls")
        assert new.data["tls.crt"] != old.data["tls.crt"]
        address = await served_certificate(clusters, "main-0")
        assert address == KeyPair(new.data["tls.crt"], b"").parsed.serial_number

    await eventually(renewed)
    assert await clusters.read("color") == "red"
    assert {name: pod.metadata.uid for name, pod in (await clusters.pods()).items()} == before

    async with under_load(clusters, clients=2) as load:
        await clusters.change(tls={"rotateAuthority": "today"})
        await clusters.rotated(old.data["ca.crt"])
        await clusters.settles(1)
    load.check(at_least=20)
    assert await clusters.read("color") == "red"


@pytest.mark.long
async def test_an_authority_is_replaced_while_the_operator_is_killed_after_each_write(
    clusters: Clusters, account: Config, new_operator: NewOperator
) -> None:
    await clusters.create(size=3, tls=TLS(enabled=True, overlap_seconds=2))
    async with observed(clusters) as observer:
        operators = Mortal(lambda: Observed(account, observer), new_operator)
        await operators.reach(clusters.settles, 3)
        old = (await clusters.secret("main-ca")).data["tls.crt"]
        async with under_load(clusters) as load:
            await clusters.change(tls={"rotateAuthority": "today"})
            new = await operators.reach(clusters.rotated, old)
            await operators.reach(clusters.settles, 3)
            await clusters.client.delete(Secret, "main-ca", namespace=clusters.namespace)  # its key is lost
            newest = await operators.reach(clusters.rotated, new)
            await clusters.change(size=4)
            await operators.reach(clusters.settles, 4)
    load.check(at_least=50)
    assert newest == (await clusters.secret("main-ca")).data["tls.crt"]
    for member in ("main-0", "main-1", "main-2", "main-3"):
        assert (await clusters.secret(f"{member}-tls")).data["ca.crt"] == newest


async def served_certificate(clusters: Clusters, member: str) -> int:
    """Return the serial number of the certificate that a member shows to a client."""
    trust = await clusters.trust()
    assert trust is not None
    async with clusters.connect(member) as etcd:
        host = etcd.url.removeprefix("https://").partition(":")[0]
    return await asyncio.to_thread(serial_number, host)


def serial_number(host: str) -> int:
    pem = ssl.get_server_certificate((host, objects.CLIENT_PORT), timeout=5)
    return KeyPair(pem.encode(), b"").parsed.serial_number
