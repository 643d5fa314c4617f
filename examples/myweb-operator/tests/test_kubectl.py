"""The output of kubectl, once the API server lists MyWeb in discovery."""

import pytest
from kubewright.testing import Cluster, eventually

from mywebctl import kubectl, needs_kubectl
from mywebs import PORT, MyWebs

pytestmark = [pytest.mark.usefixtures("operator"), needs_kubectl]


async def test_kubectl_get_all_lists_mywebs(webs: MyWebs, cluster: Cluster) -> None:
    await webs.create()
    await webs.completes()

    async def all_are_shown() -> None:
        shown = await kubectl(cluster, "get", "all", f"--namespace={webs.namespace}", "--output=name")
        assert {"myweb.operator.k8s-summit.org/web", "deployment.apps/web", "service/web"} <= set(shown.split())

    await eventually(all_are_shown)


async def test_kubectl_accepts_the_short_name(webs: MyWebs, cluster: Cluster) -> None:
    await webs.create()
    await webs.completes()
    shown = await eventually(kubectl, cluster, "get", "web", f"--namespace={webs.namespace}")
    head, line = shown.splitlines()
    assert head.split() == ["NAME", "IMAGE", "NODE", "PORT", "COMPLETED", "AGE"]
    assert line.split()[:4] == ["web", "nginx:1.23.1", str(PORT), "true"]


async def test_kubectl_explains_a_field(webs: MyWebs, cluster: Cluster) -> None:
    said = await eventually(kubectl, cluster, "explain", "web.spec.nodePortNumber")
    assert "The port on every node that serves the page" in " ".join(said.split())
