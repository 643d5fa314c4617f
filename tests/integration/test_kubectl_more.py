"""Advanced use of kubectl, and commands that a control plane without processes rejects."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from integration.command import up
from integration.kubectl import KUBECTL, Kubectl
from kubewright.testing import Cluster, eventually

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl was not found; `make controlplane` builds it")

CONFIG_MAPS = """
apiVersion: v1
kind: ConfigMap
metadata: {name: a, labels: {part: of}}
data: {k: "1"}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: b, labels: {part: of}}
"""

STRANGER = """
apiVersion: stranger.example/v1
kind: Stranger
metadata: {name: s}
"""

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: sprockets.more.example}
spec:
  group: more.example
  scope: Namespaced
  names: {plural: sprockets, kind: Sprocket}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        description: Sprocket is a thing.
        properties:
          spec:
            type: object
            properties:
              parts: {type: array, items: {type: object, properties: {size: {type: integer, description: In metres.}}}}
"""


@pytest.fixture
def kubeconfig(cluster: Cluster) -> Path:
    return cluster.kubeconfig()


@pytest.fixture
def kubectl(kubeconfig: Path, namespace: str) -> Kubectl:
    return Kubectl(kubeconfig, namespace)


async def deploy(kubectl: Kubectl) -> None:
    await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")


async def test_a_kind_that_is_not_installed_is_named(kubectl: Kubectl) -> None:
    for options in ((), ("--server-side",)):
        said = await kubectl("apply", *options, "-f", "-", given=STRANGER, fails=True)
        assert 'no matches for kind "Stranger" in version "stranger.example/v1"' in said
        assert "ensure CRDs are installed first" in said


async def test_the_kubeconfig_of_a_running_control_plane_can_be_changed(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        kubectl = Kubectl(started.kubeconfig, "default")
        assert "modified" in await kubectl("config", "set-context", "--current", "--namespace=other")


async def test_pruning_deletes_what_is_no_longer_applied(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=CONFIG_MAPS)
    first, _, _ = CONFIG_MAPS.partition("---")
    options = ("--prune", "-l", "part=of", "--prune-allowlist=core/v1/ConfigMap")
    assert "configmap/b pruned" in await kubectl("apply", *options, "-f", "-", given=first)


async def test_a_diff_shows_what_an_apply_would_change(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=CONFIG_MAPS)
    process = await kubectl.start("diff", "-f", "-")
    out, _ = await process.communicate(CONFIG_MAPS.replace('"1"', '"2"').encode())
    assert process.returncode == 1
    assert '-  k: "1"' in out.decode()
    assert '+  k: "2"' in out.decode()


async def test_replace_and_replace_by_force(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", given=CONFIG_MAPS)
    assert "configmap/a replaced" in await kubectl("replace", "-f", "-", given=CONFIG_MAPS)
    before = (await kubectl.json("get", "configmap", "a"))["metadata"]["uid"]
    await kubectl("replace", "--force", "-f", "-", given=CONFIG_MAPS)
    assert (await kubectl.json("get", "configmap", "a"))["metadata"]["uid"] != before


async def test_columns_sorting_and_templates(kubectl: Kubectl) -> None:
    await kubectl("create", "-f", "-", given=CONFIG_MAPS)
    columns = await kubectl("get", "configmaps", "-l", "part=of", "-o", "custom-columns=N:.metadata.name,K:.data.k")
    assert [line.split() for line in columns.splitlines()] == [["N", "K"], ["a", "1"], ["b", "<none>"]]
    newest = ("-l", "part=of", "--sort-by={.metadata.name}", "-o", "name")
    assert await kubectl("get", "configmaps", *newest) == "configmap/a\nconfigmap/b\n"
    assert await kubectl("get", "configmap", "a", "-o", "go-template={{.data.k}}") == "1"
    assert json.loads(await kubectl("get", "--raw", "/version"))["major"] == "1"


async def test_explain_shows_nested_fields_of_a_custom_resource(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEFINITION)
    try:
        whole = await eventually(kubectl, "explain", "sprocket")
        assert "Sprocket is a thing." in whole
        assert "Standard object's metadata." in whole
        assert "size\t<integer>" in await kubectl("explain", "sprockets.spec", "--recursive")
        assert "In metres." in await kubectl("explain", "sprockets.spec.parts.size")
    finally:
        await kubectl("delete", "crd", "sprockets.more.example")


async def test_undo_rolls_back_to_a_revision(kubectl: Kubectl) -> None:
    await deploy(kubectl)
    for image in ("nginx:2", "nginx:3"):
        await kubectl("set", "image", "deployment/web", f"nginx={image}")
        await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    await kubectl("rollout", "undo", "deployment/web", "--to-revision=1")
    image = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "deployment", "web", "-o", image) == "nginx:1"
    assert "Image:\tnginx:2" in (await kubectl("rollout", "history", "deployment/web", "--revision=2")).replace(" ", "")


async def test_autoscalers_and_events_are_shown(kubectl: Kubectl) -> None:
    await deploy(kubectl)
    await kubectl("autoscale", "deployment", "web", "--min=1", "--max=3", "--cpu-percent=50")
    assert "Deployment/web" in await kubectl("get", "hpa", "web")
    for command in (
        ("events", "--for", "deployment/web"),
        ("get", "events", "--field-selector=reason=ScalingReplicaSet"),
    ):
        await eventually(shows, kubectl, "Scaled up replica set", *command)


async def shows(kubectl: Kubectl, text: str, *command: str) -> None:
    assert text in await kubectl(*command)


async def test_a_token_authenticates_its_service_account(kubectl: Kubectl) -> None:
    await kubectl("create", "serviceaccount", "bot")
    token = await kubectl("create", "token", "bot", "--duration=10m")
    assert len(token.split(".")) == 3
    name = f"system:serviceaccount:{kubectl.namespace}:bot"
    assert name in await kubectl("auth", "whoami", f"--as={name}", "-o", "json")


async def test_nodes_are_cordoned_drained_and_tainted(kubectl: Kubectl) -> None:
    await deploy(kubectl)
    pod = (await kubectl.json("get", "pods"))["items"][0]
    node = pod["spec"]["nodeName"]
    try:
        here = ("--pod-selector=app=web", "--ignore-daemonsets", "--timeout=120s")
        assert f"node/{node} drained" in await kubectl("drain", node, *here)
        assert (await kubectl.json("get", "node", node))["spec"]["unschedulable"] is True
        await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
        assert node not in await kubectl("get", "pods", "-o", "jsonpath={.items[*].spec.nodeName}")
        assert "tainted" in await kubectl("taint", "node", node, "x=y:NoSchedule")
        assert "untainted" in await kubectl("taint", "node", node, "x-")
    finally:
        await kubectl("uncordon", node)


async def test_metrics_are_not_available(kubectl: Kubectl) -> None:
    assert "Metrics API not available" in await kubectl("top", "pods", fails=True)


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (("exec", "p", "--", "ls"), "exec"),
        (("attach", "p"), "attach"),
        (("port-forward", "p", ":80"), "port-forward"),
        (("cp", "p:/etc/hosts", "hosts"), "exec"),
    ],
)
async def test_commands_that_need_a_process_are_rejected_with_a_reason(
    kubectl: Kubectl, kubewright_target: str, command: tuple[str, ...], what: str
) -> None:
    if kubewright_target != "embedded":
        pytest.skip("real nodes answer differently")
    await kubectl("run", "p", "--image=nginx")
    await kubectl("wait", "pod/p", "--for=condition=Ready", "--timeout=120s")
    said = await kubectl(*command, fails=True)
    assert f"{what} into pods is not supported by the embedded API server" in said
