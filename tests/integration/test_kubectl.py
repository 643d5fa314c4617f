"""Everyday use of kubectl with the control plane, with the built kubectl or the installed one."""

from __future__ import annotations

import pytest

from integration.kubectl import KUBECTL, Kubectl
from kubewright.testing import Cluster, eventually

pytestmark = pytest.mark.skipif(KUBECTL is None, reason="kubectl was not found; `make controlplane` builds it")


@pytest.fixture
def kubectl(cluster: Cluster, namespace: str) -> Kubectl:
    return Kubectl(cluster.kubeconfig(), namespace)


DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: nginx, image: "nginx:1", ports: [{containerPort: 80}]}
"""


async def test_create_and_rollout_status(kubectl: Kubectl) -> None:
    assert await kubectl("create", "deployment", "web", "--image=nginx:1", "--replicas=2") == (
        "deployment.apps/web created\n"
    )
    assert "successfully rolled out" in await kubectl("rollout", "status", "deployment/web", "--timeout=120s")


async def test_create_sends_protobuf_for_config_maps_and_service_accounts(kubectl: Kubectl) -> None:
    await kubectl("create", "configmap", "c", "--from-literal=k=v")
    await kubectl("create", "serviceaccount", "s")
    await kubectl("create", "secret", "generic", "t", "--from-literal=k=v")
    assert (await kubectl.json("get", "configmap", "c"))["data"] == {"k": "v"}
    assert (await kubectl.json("get", "secret", "t"))["data"] == {"k": "dg=="}


async def test_get_prints_the_usual_columns(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    header, *rows = (await kubectl("get", "pods")).splitlines()
    assert header.split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert [row.split()[1:3] for row in rows] == [["1/1", "Running"]] * 2
    assert (await kubectl("get", "deployments")).splitlines()[1].split()[:4] == ["web", "2/2", "2", "2"]
    wide = (await kubectl("get", "pods", "-o", "wide")).splitlines()[0].split()
    assert wide[5:7] == ["IP", "NODE"]
    assert "app=web" in await kubectl("get", "pods", "--show-labels")
    assert (await kubectl("get", "deploy", "web", "-o", "yaml")).startswith("apiVersion: apps/v1\n")
    everything = await kubectl("get", "all")
    assert all(kind in everything for kind in ("pod/web-", "deployment.apps/web", "replicaset.apps/web-"))


async def test_get_watches(kubectl: Kubectl) -> None:
    process = await kubectl.start("get", "configmaps", "-w", "--no-headers", "--field-selector=metadata.name=c")
    assert process.stdout is not None
    await kubectl("create", "configmap", "c", "--from-literal=k=v")
    line = await process.stdout.readline()
    assert line.split()[:2] == [b"c", b"1"]
    process.kill()
    await process.wait()


async def test_describe_shows_conditions_and_events(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")

    pod = (await kubectl.json("get", "pods"))["items"][0]["metadata"]["name"]

    async def described() -> None:
        text = await kubectl("describe", "deployment", "web")
        assert "MinimumReplicasAvailable" in text
        assert "ScalingReplicaSet" in text
        assert "Successfully assigned" in await kubectl("describe", "pod", pod)

    await eventually(described)


async def test_apply_creates_changes_and_leaves_objects_unchanged(kubectl: Kubectl) -> None:
    assert await kubectl("apply", "-f", "-", given=DEPLOYMENT) == "deployment.apps/web created\n"
    assert await kubectl("apply", "-f", "-", given=DEPLOYMENT) == "deployment.apps/web unchanged\n"
    changed = DEPLOYMENT.replace("nginx:1", "nginx:2")
    assert await kubectl("apply", "-f", "-", given=changed) == "deployment.apps/web configured\n"


async def test_apply_names_an_unknown_field(kubectl: Kubectl) -> None:
    wrong = DEPLOYMENT.replace("replicas: 2", "replicaz: 2")
    complaint = await kubectl("apply", "-f", "-", given=wrong, fails=True)
    assert 'unknown field "spec.replicaz"' in complaint


async def test_server_side_apply_reports_conflicts(kubectl: Kubectl) -> None:
    apply = ("apply", "--server-side", "-f", "-")
    assert await kubectl(*apply, given=DEPLOYMENT) == "deployment.apps/web serverside-applied\n"
    await kubectl("scale", "deployment/web", "--replicas=3")
    complaint = await kubectl(*apply, "--field-manager=other", given=DEPLOYMENT, fails=True)
    assert "conflict" in complaint
    assert ".spec.replicas" in complaint
    await kubectl(*apply, "--field-manager=other", "--force-conflicts", given=DEPLOYMENT)
    assert (await kubectl.json("get", "deployment", "web"))["spec"]["replicas"] == 2


async def test_edit(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    assert await kubectl("edit", "deployment", "web") == "deployment.apps/web edited\n"
    images = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "deployment", "web", "-o", images) == "nginx:2"


@pytest.mark.parametrize(
    ("kind", "patch"),
    [
        ("strategic", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'),
        ("merge", '{"spec":{"template":{"spec":{"containers":[{"name":"nginx","image":"nginx:2"}]}}}}'),
        ("json", '[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"nginx:2"}]'),
    ],
)
async def test_patch(kubectl: Kubectl, kind: str, patch: str) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("patch", "deployment", "web", f"--type={kind}", "-p", patch)
    images = "jsonpath={.spec.template.spec.containers[*].image}"
    assert await kubectl("get", "deployment", "web", "-o", images) == "nginx:2"


async def test_scale(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    assert await kubectl("scale", "deployment/web", "--replicas=5") == "deployment.apps/web scaled\n"
    await kubectl("wait", "deployment/web", "--for=jsonpath={.status.readyReplicas}=5", "--timeout=120s")
    assert len((await kubectl.json("get", "pods"))["items"]) >= 5


async def test_set_image_rolls_out_and_undo_rolls_back(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    await kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    history = await kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:4]] == ["1", "2"]
    sets = {each["metadata"]["name"]: each["spec"]["replicas"] for each in (await kubectl.json("get", "rs"))["items"]}
    assert sorted(sets.values()) == [0, 2]
    await kubectl("rollout", "undo", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    images = "jsonpath={.spec.template.spec.containers[0].image}"
    assert await kubectl("get", "deployment", "web", "-o", images) == "nginx:1"
    history = await kubectl("rollout", "history", "deployment/web")
    assert [line.split()[0] for line in history.splitlines()[2:4]] == ["2", "3"]


async def test_rollout_restart_and_pause(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "pause", "deployment/web")
    await kubectl("set", "image", "deployment/web", "nginx=nginx:2")
    await kubectl("rollout", "resume", "deployment/web")
    await kubectl("rollout", "restart", "deployment/web")
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")


async def test_delete_waits_until_dependents_are_deleted(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    assert "deleted" in await kubectl("delete", "deployment", "web", "--cascade=foreground", "--timeout=120s")
    assert (await kubectl.json("get", "pods,rs,deploy"))["items"] == []


async def test_delete_by_label_and_without_dependents(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("rollout", "status", "deployment/web", "--timeout=120s")
    await kubectl("delete", "deployment", "web", "--cascade=orphan", "--timeout=120s")
    [left] = (await kubectl.json("get", "rs"))["items"]
    assert "ownerReferences" not in left["metadata"]
    await kubectl("delete", "rs", "-l", "app=web", "--timeout=120s")
    await kubectl("wait", "--for=delete", "pods", "-l", "app=web", "--timeout=120s")


async def test_explain(kubectl: Kubectl) -> None:
    assert "Number of desired pods" in await kubectl("explain", "deployment.spec.replicas")


async def test_api_resources_and_versions(kubectl: Kubectl) -> None:
    resources = await kubectl("api-resources")
    assert "deployments" in resources
    assert "rbac.authorization.k8s.io/v1" in await kubectl("api-versions")


async def test_wait_for_a_condition(kubectl: Kubectl) -> None:
    await kubectl("apply", "-f", "-", given=DEPLOYMENT)
    assert "condition met" in await kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=120s")


async def test_auth_can_i(kubectl: Kubectl) -> None:
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    account = f"--as=system:serviceaccount:{kubectl.namespace}:default"
    process = await kubectl.start("auth", "can-i", "create", "pods", account)
    out, _ = await process.communicate()
    assert (out, process.returncode) == (b"no\n", 1)


async def test_run_expose_label_annotate_and_logs(kubectl: Kubectl) -> None:
    await kubectl("run", "p", "--image=nginx:1", "--port=80")
    await kubectl("wait", "--for=condition=Ready", "pod/p", "--timeout=120s")
    await kubectl("label", "pod", "p", "tier=1")
    await kubectl("annotate", "pod", "p", "note=hello")
    await kubectl("expose", "pod", "p", "--port=80", "--type=NodePort")
    assert "NodePort" in await kubectl("get", "service", "p")
    pod = await kubectl.json("get", "pod", "p")
    assert (pod["metadata"]["labels"]["tier"], pod["metadata"]["annotations"]["note"]) == ("1", "hello")


async def test_an_object_that_is_missing(kubectl: Kubectl) -> None:
    complaint = await kubectl("get", "pod", "nope", fails=True)
    assert complaint == 'Error from server (NotFound): pods "nope" not found\n'


async def test_a_namespace_is_deleted_with_its_objects(kubectl: Kubectl) -> None:
    name = f"{kubectl.namespace}-more"
    await kubectl("create", "namespace", name)
    inside = Kubectl(kubectl._kubeconfig, name)
    await eventually(inside, "get", "serviceaccount", "default")
    await inside("apply", "-f", "-", given=DEPLOYMENT)
    await kubectl("delete", "namespace", name, "--timeout=120s")
    assert "NotFound" in await kubectl("get", "namespace", name, fails=True)
