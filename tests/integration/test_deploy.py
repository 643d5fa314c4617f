"""Operators are deployed, inspected and undeployed by the command line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path

import pytest

from integration.command import run
from integration.deployed import Deployed, Project
from integration.programs import is_ready
from kubewright import ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import Endpoints, Namespace, Service
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding
from kubewright.client._patch import MergePatch
from kubewright.models._rbac import PolicyRule
from kubewright.testing import Cluster, eventually, gone
from kubewright_controlplane.kubelet.images import ImageTable


@pytest.mark.usefixtures("processes")
async def test_an_operator_lives_from_deploy_to_undeploy(deployed: Deployed, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    said = await deployed.good("deploy")
    assert f"deployment.apps/{project.deployment} (in {project.namespace}) created" in said
    assert said.rstrip().endswith(f"{project.name} runs in namespace {project.namespace}")
    assert "objects unchanged" in await deployed.good("deploy")
    assert "created" not in await deployed.good("deploy", "--no-wait")

    await project.create(client, namespace)
    assert await eventually(project.text, client, namespace) == ""
    assert "Leadership acquired" in await deployed.good("logs")
    assert json.loads(await deployed.good("status", "--output=json"))["converged"] is True
    service = f"{project.deployment}-metrics-service"
    (subset,) = (await client.get(Endpoints, service, namespace=project.namespace)).subsets
    (pod,) = await deployed.pods()
    assert [each.ip for each in subset.addresses] == [pod.status.pod_ip]
    assert "Nothing is wrong." in await deployed.good("doctor")

    first = await deployed.holder()
    following = await deployed.follow()
    await following.receives("Leadership acquired")
    os.kill(await eventually(deployed.process), signal.SIGKILL)

    async def another_leads() -> None:
        assert await deployed.holder() != first

    await eventually(another_leads)
    (pod,) = await deployed.pods()
    await eventually(was_started_again, deployed)
    assert "Leadership acquired" in await deployed.good("logs", "--previous")
    await following.receives("Leadership acquired")
    following.process.kill()

    second = await deployed.holder()
    await client.delete(pod)

    async def another_pod_leads() -> None:
        assert (await deployed.holder()).rpartition("_")[0] not in (second.rpartition("_")[0], "")

    await eventually(another_pod_leads)

    project.set('args = ["--log-level=debug"]')
    project.write(text='"new code"')
    assert f"deployment.apps/{project.deployment} (in {project.namespace}) configured" in await deployed.good("deploy")

    async def is_new() -> None:
        assert await project.text(client, namespace) == "new code"

    await eventually(is_new)
    pid = await eventually(deployed.process)
    assert "1 Gadget would be deleted" in await deployed.failed("undeploy")
    said = await deployed.good("undeploy", "--yes")
    assert "Warning: 1 Gadget will be deleted" in said
    await nothing_is_left(deployed)
    assert "Gadget" not in said.replace("1 Gadget will", "")
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
    assert deployed.table is not None
    assert ImageTable(deployed.table).get(project.image) is None
    assert "Nothing of" in await deployed.good("undeploy")


async def was_started_again(deployed: Deployed) -> None:
    (pod,) = await deployed.pods()
    assert pod.status.container_statuses[0].restart_count == 1


async def nothing_is_left(deployed: Deployed) -> None:
    project, client = deployed.project, deployed.client
    await gone(client.get, Namespace, project.namespace)
    await gone(client.get, CustomResourceDefinition, project.crd)
    labels = {"app.kubernetes.io/name": project.name}
    for kind in (ClusterRole, ClusterRoleBinding):
        assert not list(await client.list(kind, labels=labels))


@pytest.mark.usefixtures("processes")
async def test_a_failing_manager_is_reported_with_its_last_lines(deployed: Deployed) -> None:
    fails_in_a_pod = "import os\nif 'HOSTNAME' in os.environ and 'POD' in os.environ: raise SystemExit('no luck')\n"
    deployed.project.set('env = { POD = "yes" }')
    deployed.project.write(before=fails_in_a_pod)
    said = await deployed.failed("deploy")
    assert "Last lines of its log:\n  no luck\n" in said
    *_, last = said.splitlines()
    assert last.startswith(f"Error: {deployed.project.name} does not run: Pod {deployed.project.deployment}-")
    assert "CrashLoopBackOff: its last run ended with exit code 1 (Error)" in last
    doctor = await deployed.failed("doctor")
    assert "its last run ended with exit code 1" in doctor
    assert "kubewright logs" in doctor
    status = await deployed.document("status")
    assert status["converged"] is False
    assert "its last run ended with exit code 1" in status["pods"][0]["why"]


@pytest.mark.usefixtures("processes")
async def test_an_interrupted_deploy_reports_its_completed_steps(deployed: Deployed) -> None:
    sleeps_in_a_pod = "import os, time\nif 'POD' in os.environ: time.sleep(1000)\n"
    deployed.project.set('env = { POD = "yes" }')
    deployed.project.write(before=sleeps_in_a_pod)
    said = await deployed.interrupted("deploy", when="replicas are available")
    assert "Interrupted: everything is applied, and Kubernetes continues" in said
    assert "created" not in await deployed.good("deploy", "--no-wait")


async def test_an_interrupted_undeploy_reports_the_remaining_objects(deployed: Deployed, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("deploy", "--no-wait")
    kind = project.kind()
    held = ObjectMeta(name="one", namespace=namespace, finalizers=["test.example.com/held"])
    made = await client.create(kind(metadata=held))
    said = await deployed.interrupted("undeploy", "--yes", when=f"/one (in {namespace}) is being deleted")
    assert f"gadget.{project.group}/one (in {namespace}) is being deleted, held by test.example.com/held" in said
    assert f"/one (in {namespace}) deleted" not in said
    remains = "what is listed above is deleted, the rest is being deleted or remains"
    assert f"Interrupted: {remains}; run the same command to finish" in said
    assert (await client.get(kind, "one", namespace=namespace)).metadata.deletion_timestamp is not None
    await client.get(Deployment, project.deployment, namespace=project.namespace)
    await client.patch(made, MergePatch({"metadata": {"finalizers": None}}))
    assert project.crd in await deployed.good("undeploy", "--yes")


async def test_objects_of_an_earlier_deploy_are_pruned(deployed: Deployed) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("deploy", "--no-wait")
    service = f"{project.name}-controller-manager-metrics-service"
    await client.get(Service, service, namespace=project.namespace)
    project.set('metrics = "off"')
    said = await deployed.good("deploy", "--no-wait")
    assert f"service/{service} (in {project.namespace}) deleted" in said
    assert f"clusterrole.rbac.authorization.k8s.io/{project.name}-metrics-reader deleted" in said
    await gone(client.get, Service, service, namespace=project.namespace)
    await client.get(Deployment, project.deployment, namespace=project.namespace)


async def test_a_project_does_not_replace_the_operator_of_another_with_the_same_name(
    deployed: Deployed, cluster: Cluster, tmp_path: Path
) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("deploy", "--no-wait")
    folder = tmp_path / "other"
    folder.mkdir()
    second = Deployed(Project(folder), cluster)
    second.project.name = project.name
    second.project.set()
    said = await second.failed("deploy", "--no-wait")
    assert (
        f"Deployment {project.namespace}/{project.deployment} belongs to another project named {project.name}" in said
    )
    assert f"that project defines {project.crd}, this one defines {second.project.crd}. Nothing was changed" in said
    await gone(client.get, CustomResourceDefinition, second.project.crd)
    for command in (["undeploy", "--yes"], ["status"], ["logs"], ["doctor"]):
        assert "belongs to another project" in await second.failed(*command)
    await client.get(Deployment, project.deployment, namespace=project.namespace)
    await second.good("deploy", "--no-wait", "--take-over")
    assert "belongs to another project" in await deployed.failed("deploy", "--no-wait")
    await second.good("undeploy")


async def test_an_existing_namespace_remains(deployed: Deployed, namespace: str) -> None:
    await deployed.good("deploy", "--no-wait", "--namespace", namespace)
    found = await deployed.client.get(Deployment, deployed.project.deployment, namespace=namespace)
    assert found.spec.template is not None
    assert found.spec.template.spec.containers[0].image == deployed.project.image
    await deployed.good("undeploy", "--namespace", namespace)
    present = await deployed.client.get(Namespace, namespace)
    assert present.metadata.deletion_timestamp is None
    await gone(deployed.client.get, Deployment, deployed.project.deployment, namespace=namespace)


async def test_a_deploy_changes_nothing_if_a_kind_is_not_served(deployed: Deployed) -> None:
    deployed.project.set("prometheus = true")
    said = " ".join((await deployed.failed("deploy", "--no-wait")).split())
    assert "the server has no kind ServiceMonitor in monitoring.coreos.com/v1" in said
    assert "Nothing was changed; install the Prometheus operator, or remove prometheus = true" in said
    assert await deployed.client.get_or_none(Namespace, deployed.project.namespace) is None
    deployed.project.set()


async def test_a_warning_of_the_api_server_is_printed_once(deployed: Deployed, namespace: str) -> None:
    deployed.project.write(version='v1", deprecated="Gadgets are old')
    await deployed.good("install")
    await deployed.project.create(deployed.client, namespace)
    assert (await deployed.good("uninstall", "--yes")).count("Gadgets are old") == 1


async def test_kinds_and_their_objects_can_be_kept(deployed: Deployed, namespace: str) -> None:
    await deployed.good("deploy", "--no-wait")
    await deployed.project.create(deployed.client, namespace)
    await deployed.good("undeploy", "--keep-crds")
    kind = deployed.project.kind()
    assert (await deployed.client.get(kind, "one", namespace=namespace)).metadata.deletion_timestamp is None
    found = await deployed.client.get(kind, "one", namespace=namespace)
    await deployed.client.patch(found, MergePatch({"metadata": {"finalizers": None}}))
    assert "1 Gadget will be deleted" in await deployed.good("uninstall", "--yes")
    await gone(deployed.client.get, CustomResourceDefinition, deployed.project.crd)


async def test_an_object_that_is_not_finalized_is_named(deployed: Deployed, namespace: str) -> None:
    await deployed.good("install")
    kind = deployed.project.kind()
    held = ObjectMeta(name="held", namespace=namespace, finalizers=[f"{deployed.project.group}/finish"])
    made = await deployed.client.create(kind(metadata=held))
    kept = await deployed.good("undeploy", "--keep-crds")
    assert "Warning: 1 object has finalizers, and cannot be deleted until the operator runs again" in kept
    for number in range(5):
        more = ObjectMeta(name=f"more-{number}", namespace=namespace, finalizers=["example.com/more"])
        await deployed.client.create(kind(metadata=more))
    kept = await deployed.good("undeploy", "--keep-crds")
    assert "Warning: 6 objects have finalizers" in kept
    assert f"/more-3 (in {namespace}), held by example.com/more; and 1 more" in kept
    for number in range(5):
        more = ObjectMeta(name=f"more-{number}", namespace=namespace)
        await deployed.client.patch(kind(metadata=more), MergePatch({"metadata": {"finalizers": None}}))
    said = await deployed.failed("undeploy", "--yes", "--timeout=1")
    assert f"/held (in {namespace}) deleted" not in said
    assert f"gadget.{deployed.project.group}/held (in {namespace}), held by {deployed.project.group}/finish" in said
    assert "Does the operator run" in said
    assert "deleted" in await deployed.failed("status")
    await deployed.client.patch(made, MergePatch({"metadata": {"finalizers": None}}))


async def hold(deployed: Deployed, namespace: str) -> str:
    """Uninstall the CRD, while an object with the operator's finalizer blocks the deletion. Returns the object."""
    project = deployed.project
    await deployed.good("install")
    held = ObjectMeta(name="held", namespace=namespace, finalizers=[f"{project.group}/finish"])
    await deployed.client.create(project.kind()(metadata=held))
    said = await deployed.failed("uninstall", "--yes", "--timeout=1")
    assert f"{project.crd} deleted" not in said
    assert "Not finished" not in said
    assert "kubewright logs" not in said
    return f"gadget.{project.group}/held (in {namespace}), held by {project.group}/finish"


async def release(deployed: Deployed, namespace: str) -> None:
    found = await deployed.client.get(deployed.project.kind(), "held", namespace=namespace)
    await deployed.client.patch(found, MergePatch({"metadata": {"finalizers": None}}))
    await gone(deployed.client.get, CustomResourceDefinition, deployed.project.crd)


async def test_a_crd_that_is_being_deleted_is_not_installed(deployed: Deployed, namespace: str) -> None:
    held = await hold(deployed, namespace)
    problem = f"is being deleted, and waits for {held}"
    for command in (["install"], ["deploy", "--no-wait"]):
        said = await deployed.failed(*command)
        assert f"Error: CustomResourceDefinition {deployed.project.crd} {problem}. Nothing was changed" in said
        assert "`kubewright deploy` runs it" in said
    assert f"crd/{deployed.project.crd}: {problem}" in await deployed.failed("doctor")
    assert problem in await deployed.failed("status")
    await release(deployed, namespace)
    assert "created" in await deployed.good("install")


@pytest.mark.usefixtures("processes")
async def test_a_deploy_finishes_the_deletion_of_a_crd_and_installs_it_again(
    deployed: Deployed, namespace: str
) -> None:
    project, client = deployed.project, deployed.client
    held = await hold(deployed, namespace)
    said = await deployed.good("deploy")
    assert f"Warning: CustomResourceDefinition {project.crd} is being deleted, and waits for {held}" in said
    assert f"{project.crd} created" in said
    await project.create(client, namespace)
    assert await eventually(project.text, client, namespace) == ""


@pytest.mark.usefixtures("processes")
async def test_a_deploy_fails_while_the_deletion_of_a_crd_is_blocked(deployed: Deployed, namespace: str) -> None:
    deployed.project.set("replicas = 0")
    held = await hold(deployed, namespace)
    said = await deployed.failed("deploy", "--timeout=1")
    assert "Not finished: the manager is applied, the CRDs are not" in said
    assert f"after 1 s CustomResourceDefinition {deployed.project.crd} is being deleted, and waits for {held}" in said
    await release(deployed, namespace)


async def test_the_doctor_names_problems_and_remedies(deployed: Deployed) -> None:
    project, client = deployed.project, deployed.client
    said = await deployed.failed("doctor")
    assert f"crd/{project.crd}: is not installed; run `kubewright install`" in said
    assert f"deployment: {project.name} is not deployed" in said
    await deployed.good("deploy", "--no-wait")
    await client.delete(ClusterRoleBinding, f"{project.name}-manager-rolebinding")
    crd = await client.get(CustomResourceDefinition, project.crd)
    other = {"categories": ["all"], **{"kind": crd.spec.names.kind, "plural": crd.spec.names.plural}}
    await client.patch(crd, MergePatch({"spec": {"names": other}}))
    await client.patch(
        await client.get(Deployment, project.deployment, namespace=project.namespace),
        MergePatch({"spec": {"replicas": 0}}),
    )
    found = (await deployed.document("doctor"))["findings"]
    by_subject = {each["subject"]: each for each in found}
    assert (
        f"lacks permission to get, list, watch, update, patch gadgets.{project.group}" in by_subject["rbac"]["problem"]
    )
    assert f"{project.namespace}/{project.deployment} lacks permission" in by_subject["rbac"]["problem"]
    assert "configmaps" in by_subject["rbac"]["problem"]
    assert "leases" not in by_subject["rbac"]["problem"]
    assert "scaled to 0" in by_subject["deployment"]["problem"]
    assert all(each["remedy"] for each in found)


async def test_an_object_that_has_not_converged_is_shown_with_its_reason(deployed: Deployed, namespace: str) -> None:
    await deployed.good("install")
    await deployed.project.create(deployed.client, namespace)
    kind = deployed.project.kind()
    found = await deployed.client.get(kind, "one", namespace=namespace)
    await deployed.client.patch(found, MergePatch({"status": {"observedGeneration": 0}}), subresource="status")
    said = await deployed.failed("status")
    assert "generation 1 is not reconciled yet" in said
    assert "not deployed" in said


async def test_the_doctor_names_an_object_that_is_not_ready_for_long(deployed: Deployed, namespace: str) -> None:
    program = deployed.project.folder / "gadgets.py"
    status = "    observed_generation: int = 0\n"
    conditions = f"{status}    conditions: list[Condition] = field(default_factory=list)\n"
    imported = program.read_text().replace("import Context,", "import Condition, Context,")
    program.write_text(imported.replace(status, conditions))
    await deployed.good("install")
    await deployed.project.create(deployed.client, namespace)
    found = await deployed.client.get(deployed.project.kind(), "one", namespace=namespace)
    ready = {
        "type": "Ready",
        "status": "False",
        "reason": "NoZone",
        "message": "no such zone",
        "lastTransitionTime": "2020-01-01T00:00:00Z",
    }
    await deployed.client.patch(
        found, MergePatch({"status": {"observedGeneration": 1, "conditions": [ready]}}), subresource="status"
    )
    said = await deployed.failed("doctor")
    assert f"gadget/one (in {namespace}): Ready is False (NoZone: no such zone); see `kubewright logs`" in said


async def test_commands_without_a_deployment_say_so(deployed: Deployed) -> None:
    said = await deployed.failed("logs")
    assert said.startswith(f"Error: {deployed.project.name} is not deployed: there is no Deployment")
    assert "kubewright deploy" in said


async def test_a_deployment_is_ready_on_any_control_plane(deployed: Deployed, kubewright_target: str) -> None:
    """All manifests pass strict validation, and the command waits for the rollout."""
    if kubewright_target == "kubeconfig":
        pytest.skip("there is no image to pull")
    await deployed.good("deploy")
    assert all(is_ready(each) for each in await deployed.pods())


async def test_uninstall_asks_about_objects_of_a_version_that_the_program_lacks(
    deployed: Deployed, namespace: str
) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("install")
    await project.create(client, namespace)
    project.write(version="v2")
    for command in ("uninstall", "undeploy"):
        said = await deployed.failed(command)
        assert "1 Gadget would be deleted with the CRDs" in said
        assert "Pass --yes" in said
        assert ("--keep-crds" in said) == (command == "undeploy")
    found = await client.get(project.kind(), "one", namespace=namespace)
    assert found.metadata.deletion_timestamp is None
    assert "Warning: 1 Gadget will be deleted with the CRDs" in await deployed.good("uninstall", "--yes")
    await gone(client.get, CustomResourceDefinition, project.crd)


@pytest.mark.usefixtures("processes")
async def test_undeploy_finalizes_objects_of_another_version_before_the_manager_is_removed(
    deployed: Deployed, namespace: str
) -> None:
    project, client = deployed.project, deployed.client
    await deployed.good("deploy")
    await project.create(client, namespace)
    assert await eventually(project.text, client, namespace) == ""
    project.write(version="v2")
    said = await deployed.good("undeploy", "--yes")
    assert said.index(f"gadget.{project.group}/one") < said.index(f"deployment.apps/{project.deployment}")
    await nothing_is_left(deployed)


async def test_an_object_that_the_operator_has_not_reconciled_has_not_converged(
    deployed: Deployed, namespace: str
) -> None:
    await deployed.good("install")
    await deployed.project.create(deployed.client, namespace)
    said = await deployed.failed("status")
    assert "not reconciled yet: status.observedGeneration is not set" in said
    assert "not reconciled yet" in await deployed.failed("doctor")
    deployed.project.set('watch-namespaces = ["elsewhere"]')
    assert f"the operator does not watch namespace {namespace}" in await deployed.failed("status")
    doctor = await deployed.failed("doctor")
    assert f"gadget/one (in {namespace}): the operator does not watch namespace {namespace}; move the object" in doctor


async def test_objects_that_a_new_required_field_makes_undecodable_are_named(
    deployed: Deployed, namespace: str
) -> None:
    project = deployed.project
    await deployed.good("install")
    await project.create(deployed.client, namespace)
    project.write(field="size: int")
    fault = f'Gadget "{namespace}/one": spec: object missing required field size'
    assert f"Warning: the program cannot decode {fault}" in await deployed.good("deploy", "--no-wait")
    assert f"the operator cannot decode it: {fault}" in await deployed.failed("status")
    doctor = await deployed.failed("doctor")
    assert f"gadget/one (in {namespace}): the operator cannot decode it: {fault}; set the field in the object" in doctor


async def test_the_doctor_survives_a_crd_that_the_api_server_rejects(deployed: Deployed, namespace: str) -> None:
    project = deployed.project
    await deployed.good("install")
    await project.create(deployed.client, namespace)
    project.write(version="v2")
    status, said = await deployed.run("doctor", "--output=json")
    assert status == 1
    findings = json.loads(said)["findings"]
    (crd,) = [each for each in findings if each["subject"] == f"crd/{project.crd}"]
    assert "versions that the program no longer has (v1)" in crd["problem"]
    assert "status.storedVersions" in crd["remedy"]
    assert any(each["subject"] == "deployment" for each in findings)
    for command in (["install"], ["deploy", "--no-wait"]):
        said = await deployed.failed(*command)
        assert said.startswith(f"Error: CustomResourceDefinition {project.crd}: {crd['problem']}. Nothing was changed.")
        assert crd["remedy"] in said
    await gone(deployed.client.get, Namespace, project.namespace)
    said = await deployed.failed("status")
    assert f"Gadget.{project.group} is installed, in v1 alone, without v2" in said
    project.set('image = "not an image"')
    status, said = await deployed.run("doctor", "--output=json")
    assert json.loads(said)["findings"][0]["subject"] == "project"


@pytest.mark.usefixtures("processes")
async def test_two_projects_on_one_control_plane_keep_their_images(
    deployed: Deployed, cluster: Cluster, tmp_path: Path
) -> None:
    project = deployed.project
    await deployed.good("deploy", "--no-wait")
    folder = tmp_path / "other"
    folder.mkdir()
    other = Deployed(Project(folder), cluster)
    said = await other.failed("deploy", "--no-wait", "--image", project.image)
    assert f"image {project.image} belongs to another project on this control plane" in said
    assert f"Deployment {project.namespace}/{project.deployment} runs the code in {project.folder}" in said
    assert deployed.table is not None
    await other.good("deploy", "--no-wait")
    stolen = ImageTable(deployed.table).get(other.project.image)
    assert stolen is not None
    ImageTable(deployed.table).put(project.image, stolen)
    assert f"image: {project.image} runs the code of another project" in await deployed.failed("doctor")
    assert "belongs to" not in await other.good("undeploy")
    assert ImageTable(deployed.table).get(project.image) == stolen
    assert "runs in namespace" in await deployed.good("deploy")


@pytest.mark.usefixtures("processes")
async def test_a_deploy_replaces_pods_that_failed_before(deployed: Deployed, tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    deployed.project.set('env = { POD = "yes" }')
    missing = f"not pathlib.Path({str(wanted)!r}).exists()"
    deployed.project.write(before=f"import os, pathlib\nif 'POD' in os.environ and {missing}: raise SystemExit('no')\n")
    assert "CrashLoopBackOff" in await deployed.failed("deploy")
    wanted.touch()
    assert "runs in namespace" in await deployed.good("deploy")


async def test_a_deploy_that_is_forbidden_half_way_reports_its_completed_steps(
    deployed: Deployed, cluster: Cluster, namespace: str
) -> None:
    """The account may apply the Namespace and the CRD, and no later object."""
    rules = [
        PolicyRule(api_groups=[""], resources=["namespaces"], verbs=["*"]),
        PolicyRule(api_groups=["apiextensions.k8s.io"], resources=["customresourcedefinitions"], verbs=["*"]),
        PolicyRule(api_groups=["apps"], resources=["deployments"], verbs=["get", "list"]),
    ]
    async with cluster.service_account(rules, namespace=namespace) as account:
        limited = cluster.kubeconfig(account)
        status, said = await asyncio.to_thread(run, "deploy", folder=deployed.project.folder, kubeconfig=limited)
    assert status == 1
    assert f"customresourcedefinition.apiextensions.k8s.io/{deployed.project.crd} created" in said
    assert "Not finished: what is listed above is applied, the rest is not; run the same command to finish" in said
    assert said.splitlines()[-1].startswith("Error: ")
