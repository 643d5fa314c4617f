"""KUDO's packages on a control plane: installed, changed, upgraded, killed, repaired and deleted."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
import pytest_asyncio

from integration.command import run
from kubewright import Config, Forbidden, Manager, plans
from kubewright.apis.apps.v1 import Deployment, StatefulSet
from kubewright.apis.batch.v1 import Job
from kubewright.apis.core.v1 import (
    ConfigMap,
    PersistentVolume,
    Pod,
    Secret,
    Service,
)
from kubewright.apis.meta.v1 import ObjectMeta
from kubewright.apis.storage.v1 import StorageClass
from kubewright.client import JSONPatch, MergePatch
from kubewright.machinery.errors import ConfigError
from kubewright.models import codec
from kubewright.packages import (
    Change,
    Instance,
    Operator,
    OperatorVersion,
    Target,
    admit_instance,
    install,
    package_manager,
    trigger,
    uninstall,
    update,
    upgrade,
)  # fmt: skip
from kubewright.testing import Cluster, Faults, eventually, gone, killed_after_each_write
from kubewright_controlplane import STAND_INS
from kudo.files import write_package

SAMPLES = Path(__file__).parents[1] / "kudo" / "samples"


class Packages:
    """The packages of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.cluster = cluster
        self.client = cluster.client
        self.target = Target(cluster.client, namespace)
        self.namespace = namespace

    async def install(self, path: Path, instance: str, **parameters: str) -> list[str]:
        made = install(self.target, path, instance=instance, parameters=parameters)
        return [str(each) async for each in made]

    async def upgrade(self, path: Path, instance: str, **parameters: str) -> list[Change]:
        return [each async for each in upgrade(self.target, path, instance=instance, parameters=parameters)]

    async def complete(self, instance: str, execution: str) -> Instance:
        """Wait until an execution is complete, and return the instance."""

        async def ended() -> Instance:
            found = await self.target.instance(instance)
            assert found.status.execution is not None
            assert found.status.execution.name == execution
            if found.status.execution.state == "Failed":
                pytest.fail(found.status.execution.message)
            assert found.status.execution.state == "Complete", found.status.execution.message
            assert not found.spec.plan_execution.plan_name
            return found

        return await eventually(ended)

    async def ready(self, instance: str) -> Instance:
        async def is_ready() -> Instance:
            found = await self.target.instance(instance)
            assert [each.status for each in found.status.conditions if each.type == "Ready"] == ["True"]
            return found

        return await eventually(is_ready)


def changed(name: str, folder: Path, *changes: tuple[str, str, str]) -> Path:
    """Copy a sample package, and change its files."""
    path = Path(shutil.copytree(SAMPLES / name, folder / name))
    for file, old, new in changes:
        text = (path / file).read_text()
        assert old in text
        (path / file).write_text(text.replace(old, new, 1))
    return path


def operator(access: Config | Faults, namespace: str) -> Manager:
    if isinstance(access, Faults):
        return package_manager().replace(transport=access, namespaces=namespace, webhooks=())
    return package_manager().replace(config=access, namespaces=namespace, webhooks=())


@pytest_asyncio.fixture
async def packages(cluster: Cluster, namespace: str) -> AsyncIterator[Packages]:
    """Packages, with the webhook but without the operator."""
    await cluster.install(Operator, OperatorVersion, Instance)
    async with Manager(webhooks=[admit_instance], config=cluster.config, name="kubewright-packages"):
        yield Packages(cluster, namespace)


@pytest_asyncio.fixture
async def running(packages: Packages) -> AsyncIterator[Packages]:
    """Packages, with their operator."""
    async with operator(packages.cluster.config, packages.namespace):
        yield packages


async def test_a_package_is_installed_changed_and_upgraded(
    running: Packages, tmp_path: Path, kubewright_target: str
) -> None:
    client, namespace = running.client, running.namespace
    persistence = "true" if kubewright_target == "embedded" else "false"  # the others may have no storage
    assert await running.install(SAMPLES / "zookeeper", "zk", NODE_COUNT="2", PERSISTENCE=persistence) == [
        "Operator zookeeper created",
        "OperatorVersion zookeeper-3.9.1-1.0.0 created",
        "Instance zk created",
    ]
    zk = await running.complete("zk", "deploy-1")
    assert zk.spec.parameters == {"NODE_COUNT": "2", "PERSISTENCE": persistence, "CLUSTER_ID": "main"}
    status = zk.status.plan_status
    assert (status["deploy"].status, status["validation"].status) == ("COMPLETE", "NEVER_RUN")
    assert [step.status for phase in status["deploy"].phases for step in phase.steps] == ["COMPLETE"] * 3
    servers = await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)
    assert servers.metadata.labels["kudo.dev/instance"] == "zk"
    assert servers.metadata.annotations["kudo.dev/last-plan-execution-uid"] == status["deploy"].uid
    assert servers.metadata.owner_references[0].name == "zk"
    first_hash = servers.spec.template.metadata.annotations["kudo.dev/dependencies-hash"]
    await gone(client.get, Job, "zk-validation", namespace=namespace)

    assert str(await update(running.target, "zk", {"NODE_COUNT": "3"})) == "Instance zk changed"
    await running.complete("zk", "deploy-2")
    servers = await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)
    assert servers.spec.replicas == 3
    assert servers.spec.template.metadata.annotations["kudo.dev/dependencies-hash"] != first_hash

    newer = changed("zookeeper", tmp_path, ("operator.yaml", '"1.0.0"', '"1.1.0"'), ("operator.yaml", "3.9.1", "3.9.2"))
    await running.upgrade(newer, "zk", MEMORY="128Mi")
    zk = await running.complete("zk", "deploy-3")
    assert zk.spec.operator_version.name == "zookeeper-3.9.2-1.1.0"
    servers = await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)
    assert servers.spec.template.spec is not None
    assert servers.spec.template.spec.containers[0].image == "registry.example.com/zookeeper:3.9.2"
    with pytest.raises(ConfigError, match="is not newer than that of Instance"):
        await running.upgrade(newer, "zk")


async def test_plans_are_triggered_and_what_kudo_refuses_is_refused(running: Packages) -> None:
    await running.install(SAMPLES / "zookeeper", "zk", NODE_COUNT="1")
    await running.complete("zk", "deploy-1")
    await trigger(running.target, "zk", "validation")
    await running.complete("zk", "validation-2")
    await update(running.target, "zk", {"CHECKS": "[ruok]"})
    await running.complete("zk", "validation-3")
    with pytest.raises(ConfigError, match="has no plan backup; its plans are deploy, not-allowed, validation"):
        await trigger(running.target, "zk", "backup")
    with pytest.raises(Forbidden, match='parameter "CLUSTER_ID" is immutable'):
        await update(running.target, "zk", {"CLUSTER_ID": "other"})
    with pytest.raises(Forbidden, match="must be of type integer"):
        await update(running.target, "zk", {"CLIENT_PORT": "many"})
    await update(running.target, "zk", {"DISK_SIZE": "2Gi"})  # its plan never completes

    async def waits() -> None:
        found = await running.target.instance("zk")
        assert found.status.execution is not None
        assert found.status.execution.message == "task not-allowed never completes"

    await eventually(waits)
    with pytest.raises(Forbidden, match="plan not-allowed is scheduled or runs, and the change would trigger deploy"):
        await update(running.target, "zk", {"NODE_COUNT": "2"})
    zk = await running.target.instance("zk")
    await plans.pause(running.client, zk)

    async def is_paused() -> None:
        found = await running.target.instance("zk")
        assert found.status.execution is not None
        assert found.status.execution.state == "Paused"

    await eventually(is_paused)
    await plans.resume(running.client, zk)
    await plans.cancel(running.client, zk, "not-allowed-4")

    async def is_canceled() -> None:
        found = await running.target.instance("zk")
        assert found.status.plan_status["not-allowed"].status == "FATAL_ERROR"
        assert not found.spec.plan_execution.plan_name

    await eventually(is_canceled)


async def test_what_a_package_made_is_restored(running: Packages) -> None:
    client, namespace = running.client, running.namespace
    await running.install(SAMPLES / "zookeeper", "zk", NODE_COUNT="1")
    await running.complete("zk", "deploy-1")
    await running.ready("zk")
    scripts = await client.get(ConfigMap, "zk-scripts", namespace=namespace)
    await client.delete(scripts)
    await client.patch(
        await client.get(StatefulSet, "zk-zookeeper", namespace=namespace), MergePatch({"spec": {"replicas": 5}})
    )

    async def is_restored() -> None:
        again = await client.get(ConfigMap, "zk-scripts", namespace=namespace)
        assert again.metadata.uid != scripts.metadata.uid
        servers = await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)
        assert servers.spec.replicas == 1

    await eventually(is_restored)


async def test_a_plan_leaves_objects_that_it_does_not_name(running: Packages) -> None:
    client, namespace = running.client, running.namespace
    await running.install(SAMPLES / "cassandra", "c")
    await running.complete("c", "deploy-1")
    await trigger(running.target, "c", "backup")
    await running.complete("c", "backup-2")
    backup = await client.get(Job, "c-backup", namespace=namespace)
    assert backup.metadata.annotations["backup"] == "nightly"
    await update(running.target, "c", {"BACKUP_NAME": "weekly"})
    await running.complete("c", "backup-3")
    backup = await client.get(Job, "c-backup", namespace=namespace)
    assert backup.metadata.annotations["backup"] == "weekly"
    servers = await client.get(StatefulSet, "c-dc1", namespace=namespace)
    assert servers.metadata.annotations["kudo.dev/plan"] == "deploy"


async def test_a_plan_that_fails_says_where_and_continues_on_request(running: Packages, tmp_path: Path) -> None:
    client, namespace = running.client, running.namespace
    broken = "{{ index (list 1) (int .Params.STORAGE_PORT) }}"
    path = changed("cassandra", tmp_path, ("templates/service.yaml", "{{ .Params.STORAGE_PORT }}", broken))
    await running.install(path, "c")

    async def has_failed() -> Instance:
        found = await running.target.instance("c")
        assert found.status.execution is not None
        assert found.status.execution.state == "Failed"
        assert not found.spec.plan_execution.plan_name
        return found

    found = await eventually(has_failed)
    assert found.status.plan_status["deploy"].message.startswith("task node: templates/service.yaml:7:")
    rbac, nodes = found.status.plan_status["deploy"].phases
    assert (rbac.status, [each.status for each in nodes.steps]) == ("COMPLETE", ["COMPLETE", "FATAL_ERROR"])

    version = await client.get(OperatorVersion, "cassandra-3.11.6-1.0.1", namespace=namespace)
    fixed = (SAMPLES / "cassandra" / "templates" / "service.yaml").read_text()
    await client.patch(version, MergePatch({"spec": {"templates": {"service.yaml": fixed}}}))
    await plans.retry(client, found, "deploy-1")
    done = await running.complete("c", "deploy-2")
    assert done.status.execution is not None
    assert done.status.execution.phases[0].steps[0].started is None  # was complete before


async def test_child_instances_are_installed_with_their_parameters(running: Packages) -> None:
    client, namespace = running.client, running.namespace
    written = await running.install(SAMPLES / "stack", "app")
    assert [each for each in written if each.startswith("OperatorVersion")] == [
        "OperatorVersion zookeeper-3.9.1-1.0.0 created",
        "OperatorVersion cassandra-3.11.6-1.0.1 created",
        "OperatorVersion stack-0.1.0 created",
    ]
    await running.complete("app", "deploy-1")
    child = await client.get(Instance, "zk", namespace=namespace)
    assert child.spec.parameters["NODE_COUNT"] == "1"
    assert child.spec.parameters["LABELS"] == "tier: app\n"
    assert (await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)).spec.replicas == 1
    await client.get(StatefulSet, "app-cassandra-dc1", namespace=namespace)
    await client.get(Deployment, "app", namespace=namespace)
    await update(running.target, "app", {"QUORUM": "2"})
    await running.complete("app", "deploy-2")
    assert (await client.get(StatefulSet, "zk-zookeeper", namespace=namespace)).spec.replicas == 2


async def test_cleanup_runs_before_an_instance_is_deleted(running: Packages) -> None:
    client, namespace = running.client, running.namespace
    await running.install(SAMPLES / "cassandra", "c")
    made = await running.complete("c", "deploy-1")
    assert made.metadata.finalizers == ["kudo.dev.instance.cleanup"]
    await uninstall(running.target, "c")
    goodbye = await eventually(client.get, Job, "c-goodbye", namespace=namespace)
    assert goodbye.metadata.annotations["kudo.dev/plan"] == "cleanup"
    await gone(client.get, Instance, "c", namespace=namespace)
    await gone(client.get, StatefulSet, "c-dc1", namespace=namespace)


async def test_the_commands_install_change_and_show_an_instance(running: Packages, tmp_path: Path) -> None:
    kubeconfig = running.cluster.kubeconfig()

    async def package(*arguments: object) -> tuple[int, str]:
        given = ("package", *arguments, "--namespace", running.namespace)
        return await asyncio.to_thread(run, *given, folder=tmp_path, kubeconfig=kubeconfig)

    values = tmp_path / "values.yaml"
    values.write_text("NODE_COUNT: 1\nCHECKS: [ruok]\n")
    code, output = await package("install", SAMPLES / "zookeeper", "--instance=zk", "-P", values, "--wait")
    assert (code, "deploy-1 of Instance zk is complete" in output) == (0, True), output
    code, output = await package("update", "--instance=zk", "-p", "NODE_COUNT=2", "--wait")
    assert (code, "deploy-2 of Instance zk is complete" in output) == (0, True), output
    code, output = await package("update", "--instance=zk", "-p", "CLUSTER_ID=x")
    assert (code, 'parameter "CLUSTER_ID" is immutable' in output) == (1, True), output
    assert "account" not in output  # more permissions would not help
    await running.ready("zk")
    code, output = await package("status", "--instance=zk")
    assert (code, "  Plan deploy: COMPLETE (deploy-2, Complete)\n" in output) == (0, True), output
    code, output = await package("history", "--instance=zk")
    assert (code, output.split()[:4]) == (0, ["PLAN", "STATUS", "LAST", "UPDATED"]), output
    code, output = await package("uninstall", "--instance=zk", "--wait")
    assert (code, output) == (0, "Instance zk deleted\n")
    code, output = await package("status", "--instance=zk")
    assert (code, "there is no Instance" in output) == (1, True), output


async def test_files_of_a_pod_become_secrets_and_config_maps(running: Packages, kubewright_target: str) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("Pods of this cluster do not run as processes")
    client, namespace = running.client, running.namespace
    async with running.cluster.images(STAND_INS):
        await running.install(SAMPLES / "kafka", "k", MONITOR="true")
        done = await running.complete("k", "deploy-1")
    prefix = "k.deploy.deploykafka.certificates.certificates"
    secret = await client.get(Secret, f"{prefix}.privatekey", namespace=namespace)
    assert secret.data == {"tls.key": b"secret-of-k\n"}
    settings = await client.get(ConfigMap, f"{prefix}.settings", namespace=namespace)
    assert settings.data == {"LEVEL": "high", "SIZE": "3"}
    tls = await client.get(ConfigMap, "k-tls", namespace=namespace)
    assert tls.data["key"] == f"{prefix}.privatekey"
    await gone(client.get, Pod, f"{prefix}.pipepod", namespace=namespace)
    assert secret.metadata.annotations["kudo.dev/last-plan-execution-uid"] == done.status.plan_status["deploy"].uid
    await client.get(Service, "k-metrics", namespace=namespace)
    await update(running.target, "k", {"EXTERNAL_ACCESS": "true"})
    await running.complete("k", "external-access-2")
    await client.get(Service, "k-kafka-1-external", namespace=namespace)
    await update(running.target, "k", {"EXTERNAL_ACCESS": "false"})
    await running.complete("k", "external-access-3")
    await gone(client.get, Service, "k-kafka-1-external", namespace=namespace)


async def test_every_feature_of_packages_works(running: Packages, tmp_path: Path, kubewright_target: str) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("Pods of this cluster do not run as processes")
    client, namespace = running.client, running.namespace
    (tmp_path / "redis").symlink_to(SAMPLES / "redis")
    path = changed("everything", tmp_path)
    async with late_volume(running) as storage_class, running.cluster.images(STAND_INS):
        await running.install(path, "e", IDENTITY="it's", STORAGE_CLASS=storage_class)
        done = await running.complete("e", "deploy-1")
    assert {each.status for each in done.status.plan_status["deploy"].phases} == {"COMPLETE"}
    settings = (await client.get(ConfigMap, "e-settings", namespace=namespace)).data
    assert settings["line"] == "E=deploy/run/settings"
    assert settings["operator"] == f"everything 1.0.0 2.1.0 in {namespace}"
    assert [settings[each] for each in ("hosts", "first", "count", "ratio", "next")] == [
        "a.example.com,b.example.com", "a.example.com", "2", "0.2", "3",
    ]  # fmt: skip
    assert [settings[each] for each in ("nested", "mode", "note", "ternary", "matches")] == [
        "[1,2.5,true,null]", "Safe2", "none", "off", "it-s",
    ]  # fmt: skip
    assert settings["text"] == 'first "line" {{ not a template }}\nsecond: line\n'
    assert settings["yaml"] == "nested:\n  list:\n  - 1\n  - 2.5\n  - true\n  - null\ntier: back\n"
    dashboard = await client.get(ConfigMap, "e-dashboard", namespace=namespace)
    assert dashboard.data == {"legend": "{{instance}}"}
    app = await client.get(Deployment, "e", namespace=namespace)
    volumes = codec.to_dict(app)["spec"]["template"]["spec"]["volumes"]
    named = {each["name"]: str(each.get("secret") or each.get("configMap")) for each in volumes}
    prefix = "e.deploy.prepare.keys.keys"
    assert f"'{prefix}.tlskey'" in named["key"]
    key = await client.get(Secret, f"{prefix}.tlskey", namespace=namespace)
    assert key.data == {"tls.key": b"key-of-e\n"}
    assert f"'{prefix}.authority'" in named["authority"]
    authority = await client.get(ConfigMap, f"{prefix}.authority", namespace=namespace)
    assert authority.binary_data == {"ca.crt": b"ca\n"}
    assert f"'{prefix}.envfile'" in named["env"]
    env = await client.get(Secret, f"{prefix}.envfile", namespace=namespace)
    assert env.data == {"A": b"1", "B": b"two=2"}
    await gone(client.get, Job, "e-job", namespace=namespace)
    cache = await client.get(Instance, "e-redis", namespace=namespace)
    assert cache.spec.parameters == {"PASSWORD": "it's-e", "REPLICAS": "1", "SAVE": "- 60 1\n- 120 1\n"}

    await update(running.target, "e", {"METRICS": "true"})
    await running.complete("e", "toggle-metrics-2")
    await client.get(Service, "e-metrics", namespace=namespace)
    with pytest.raises(Forbidden, match='parameter "IDENTITY" is immutable'):
        await update(running.target, "e", {"IDENTITY": "other"})
    with pytest.raises(Forbidden, match='parameter "MODE" must be one of'):
        await update(running.target, "e", {"MODE": "slow"})
    with pytest.raises(Forbidden, match="trigger several plans: backup, toggle-metrics"):
        await update(running.target, "e", {"METRICS": "false", "BACKUP_NAME": "second"})
    await update(running.target, "e", {"BACKUP_NAME": "second"})
    await running.complete("e", "backup-3")
    job = await client.get(Job, "e-job", namespace=namespace)
    assert (job.metadata.annotations["backup"], job.metadata.annotations["plan"]) == ("second", "backup")
    await update(running.target, "e", {"NOTE": "hello", "MODE": "fast"})
    await running.complete("e", "update-4")
    settings = (await client.get(ConfigMap, "e-settings", namespace=namespace)).data
    assert [settings[each] for each in ("line", "mode", "with-note")] == [
        "E=update/settings/settings",
        "Fast2",
        "hello",
    ]

    operator_yaml = path / "operator.yaml"
    text = operator_yaml.read_text()
    operator_yaml.write_text(text.replace("operatorVersion: 1.0.0", "operatorVersion: 1.1.0").replace("2.1.0", "2.2.0"))
    await running.upgrade(path, "e")
    await running.complete("e", "upgrade-5")
    pod = (await client.get(Deployment, "e", namespace=namespace)).spec.template.spec
    assert pod is not None
    assert pod.containers[0].image == "registry.example.com/everything:2.2.0"
    await uninstall(running.target, "e")
    await gone(client.get, Instance, "e", namespace=namespace)
    await gone(client.get, Instance, "e-redis", namespace=namespace)


@asynccontextmanager
async def late_volume(packages: Packages) -> AsyncGenerator[str]:
    """Make a volume whose storage class waits for the first Pod of a claim, and return the name of the class."""
    name = f"late-{packages.namespace}"
    volume = {
        "metadata": {"name": name},
        "spec": {
            "storageClassName": name,
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": "1Mi"},
            "hostPath": {"path": f"/tmp/{name}"},
        },
    }
    made = [
        await packages.client.create(
            StorageClass(
                metadata=ObjectMeta(name=name),
                provisioner="kubernetes.io/no-provisioner",
                volume_binding_mode="WaitForFirstConsumer",
            )
        ),
        await packages.client.create(codec.from_dict(PersistentVolume, volume)),
    ]
    try:
        yield name
    finally:
        for each in made:
            await packages.client.delete(each)


@pytest.mark.parametrize(
    ("name", "change", "plan"),
    [
        ("redis", {"MAX_MEMORY_POLICY": "allkeys-lru"}, "reconfigure"),
        ("rabbitmq", {"LIMITS": "{cpu: 100m}", "ADMIN_UI": "false"}, "update"),
        ("elastic", {"SETTINGS": "{indexMemory: 1000000}", "DATA_NODE_COUNT": "1"}, "deploy"),
    ],
)
async def test_packages_of_others_are_installed_and_changed(
    running: Packages, name: str, change: dict[str, str], plan: str
) -> None:
    client, namespace = running.client, running.namespace
    given = {"PASSWORD": "secret"} if name == "redis" else {}
    await running.install(SAMPLES / name, name, **given)
    await running.complete(name, "deploy-1")
    await running.ready(name)
    await update(running.target, name, change)
    await running.complete(name, f"{plan}-2")
    if name == "redis":
        config = await client.get(ConfigMap, "redis-config", namespace=namespace)
        assert config.data["redis.conf"].startswith("maxmemory-policy allkeys-lru\ndatabases 16\nsave 900 1\n")
    elif name == "rabbitmq":
        pod = (await client.get(StatefulSet, "rabbitmq", namespace=namespace)).spec.template.spec
        assert pod is not None
        assert pod.containers[0].resources is not None
        assert str(pod.containers[0].resources.limits["cpu"]) == "100m"
    else:
        pod = (await client.get(StatefulSet, "elastic-data", namespace=namespace)).spec.template.spec
        assert pod is not None
        values = {each.name: each.value for each in pod.containers[0].env}
        assert values["index.memory"] == "1e+06"
        assert values["cluster.initial_master_nodes"] == "elastic-master-0,elastic-master-1,elastic-master-2"


async def test_the_commands_refuse_what_cannot_work(running: Packages, tmp_path: Path) -> None:
    kubeconfig = running.cluster.kubeconfig()

    async def refused(*arguments: object) -> str:
        given = ("package", *arguments)
        code, output = await asyncio.to_thread(run, *given, folder=tmp_path, kubeconfig=kubeconfig)
        assert code == 1, output
        return output

    where = ("--namespace", running.namespace)
    broken = changed("zookeeper", tmp_path, ("operator.yaml", "statefulset.yaml", "statefulst.yaml"))
    said = await refused("install", broken, "--instance=zk", *where)
    assert "is not valid; nothing was installed. Correct it, or pass --no-verify:" in said
    assert "did you mean 'statefulset.yaml'?" in said
    assert list(await running.client.list(OperatorVersion, namespace=running.namespace)) == []
    said = await refused("install", SAMPLES / "zookeeper", "--namespace", "not-there")
    assert "namespace not-there does not exist; create it with --create-namespace" in said
    said = await refused("install", SAMPLES / "zookeeper", "--create-namespace", *where)
    assert f"namespace {running.namespace} exists; leave out --create-namespace" in said

    await running.install(SAMPLES / "zookeeper", "zk", NODE_COUNT="1")
    await running.complete("zk", "deploy-1")
    for request, reason in {
        "pause": "has ended as Complete; there is no plan to pause",
        "cancel": "has ended as Complete; there is no plan to cancel",
        "resume": "is Complete, and not paused",
        "retry": "is Complete, and only a plan that failed or was canceled is retried; start one with trigger",
    }.items():
        assert f'deploy-1 of Instance "zk" {reason}' in await refused(request, "--instance=zk", *where)


SMALL = {
    "operator.yaml": """
name: small
operatorVersion: 1.0.0
kubernetesVersion: 1.16.0
tasks:
  - {name: settings, kind: Toggle, spec: {parameter: ENABLED, resources: [settings.yaml]}}
  - {name: app, kind: Apply, spec: {resources: [app.yaml]}}
  - {name: clear, kind: Delete, spec: {resources: [settings.yaml]}}
plans:
  deploy:
    strategy: serial
    phases:
      - {name: begin, strategy: parallel, steps: [{name: settings, tasks: [settings]}, {name: app, tasks: [app]}]}
      - {name: end, strategy: serial, steps: [{name: clear, tasks: [clear]}]}
""",
    "params.yaml": 'parameters: [{name: ENABLED, default: "true"}]',
    "templates/settings.yaml": "{apiVersion: v1, kind: ConfigMap, metadata: {name: '{{ .Name }}-settings'}}",
    "templates/app.yaml": "{apiVersion: v1, kind: Service, metadata: {name: {{ .Name }}}, spec: {ports: [{port: 80}]}}",
}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("name", "service", "parameters"),
    [
        ("small", "", {}),
        ("cassandra", "-svc", {}),
        ("everything", "-metrics", {"IDENTITY": "x", "METRICS": "true"}),
    ],
)
async def test_a_plan_is_completed_wherever_the_operator_dies(
    packages: Packages, tmp_path: Path, kubewright_target: str, name: str, service: str, parameters: dict[str, str]
) -> None:
    if name == "everything" and kubewright_target != "embedded":
        pytest.skip("only the embedded control plane has the storage class standard")
    client, namespace = packages.client, packages.namespace
    path = SAMPLES / name if name != "small" else write_package(tmp_path, SMALL)
    number = 0

    async for faults in killed_after_each_write(packages.cluster.config):
        number += 1
        instance = f"c{number}"

        async def is_complete(instance: str = instance) -> None:
            found = await packages.target.instance(instance)
            assert found.status.execution is not None
            assert found.status.execution.state == "Complete"
            assert not found.spec.plan_execution.plan_name

        await packages.install(path, instance, **parameters)
        async with packages.cluster.images(STAND_INS) if name == "everything" else nullcontext():
            async with operator(faults, namespace):
                await faults.died_or(is_complete)
            async with operator(packages.cluster.config, namespace):
                await eventually(is_complete)
                done = await packages.target.instance(instance)
                assert (done.status.executions, done.status.plan_status["deploy"].status) == (1, "COMPLETE")
                made = await client.get(Service, f"{instance}{service}", namespace=namespace)
                assert made.metadata.owner_references[0].name == instance
                await uninstall(packages.target, instance)
                await gone(client.get, Instance, instance, namespace=namespace)
    assert number > 5


async def test_objects_of_kudo_are_accepted(packages: Packages) -> None:
    document = {
        "apiVersion": "kudo.dev/v1beta1",
        "kind": "OperatorVersion",
        "metadata": {"name": "old-1", "namespace": packages.namespace, "creationTimestamp": None},
        "spec": {
            "operator": {"name": "old", "kind": "Operator"},
            "version": "1",
            "tasks": [{"name": "a", "kind": "Dummy", "spec": {"done": True, "resources": None, "pipe": None}}],
            "plans": {"deploy": {"strategy": "serial", "phases": None}},
            "parameters": [{"name": "X", "value-type": "map", "default": "a: 1", "required": True}],
        },
        "status": {},
    }  # fmt: skip
    await packages.client.create(codec.from_dict(OperatorVersion, document))
    made = await packages.client.create(
        codec.from_dict(
            Instance,
            {
                "metadata": {"name": "old", "namespace": packages.namespace},
                "spec": {"operatorVersion": {"name": "old-1"}},
                "status": {},
            },
        )
    )
    assert made.spec.plan_execution.plan_name == "deploy"
    with pytest.raises(Forbidden, match="cannot be removed from the spec; cancel it"):
        await packages.client.patch(made, JSONPatch(({"op": "remove", "path": "/spec/planExecution"},)))
