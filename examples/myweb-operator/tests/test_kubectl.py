"""What kubectl shows of MyWebs, once the API server lists their kind among those that there are."""

import pytest
from kubewright.testing import Cluster, eventually

from mywebctl import kubectl, needs_kubectl
from mywebs import PORT, MyWebs

pytestmark = [
    pytest.mark.xdist_group(f"node port {PORT}"), pytest.mark.usefixtures("operator"), needs_kubectl,
]  # fmt: skip


async def test_all_that_is_in_a_namespace_has_its_mywebs_too(webs: MyWebs, cluster: Cluster) -> None:
    await webs.create()
    await webs.completes()

    async def all_are_shown() -> None:
        shown = await kubectl(cluster, "get", "all", f"--namespace={webs.namespace}", "--output=name")
        assert {"myweb.operator.k8s-summit.org/web", "deployment.apps/web", "service/web"} <= set(shown.split())

    await eventually(all_are_shown)


async def test_they_are_called_web_for_short(webs: MyWebs, cluster: Cluster) -> None:
    await webs.create()
    await webs.completes()
    shown = await eventually(kubectl, cluster, "get", "web", f"--namespace={webs.namespace}")
    head, line = shown.splitlines()
    assert head.split() == ["NAME", "IMAGE", "NODE", "PORT", "COMPLETED", "AGE"]
    assert line.split()[:4] == ["web", "nginx:1.23.1", str(PORT), "true"]


async def test_a_field_is_explained_by_its_description(webs: MyWebs, cluster: Cluster) -> None:
    said = await eventually(kubectl, cluster, "explain", "web.spec.nodePortNumber")
    assert "The port of every node on which the page is reached" in " ".join(said.split())
