"""Bundles are installed, upgraded and cleaned up without OLM."""

from __future__ import annotations

import asyncio
import json
import shutil
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from integration.bundles import ForeignBundle
from integration.command import BackgroundCommand, run
from kubewright import Client, ConfigError, ObjectMeta
from kubewright._runtime.clock import SystemClock
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.core.v1 import ConfigMap, Namespace, Secret, Service
from kubewright.apis.rbac.v1 import ClusterRole, ClusterRoleBinding, Role
from kubewright.client._crds import until_established
from kubewright.client._dynamic import Unstructured, decode_object
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConnectionFailed
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, codec
from kubewright.testing import Cluster, Faults
from kubewright_cli.deployment.objects import FIELD_MANAGER, Change, Objects
from kubewright_cli.installation.cleanup import cleanup_bundle
from kubewright_cli.installation.crdchecks import upgrade_problems
from kubewright_cli.installation.install import InstallOptions, install_bundle
from kubewright_cli.installation.inventory import Inventory, find_installation, inventories
from kubewright_cli.installation.render import CERTIFICATE_DIGEST, OWNER, Placement, render_bundle
from kubewright_cli.installation.source import InstallableBundle

CONDITION = APIResource("operators.coreos.com", "v2", "OperatorCondition", "operatorconditions")


class Folder:
    """The folder of a user, and the commands that run there."""

    def __init__(self, path: Path, cluster: Cluster) -> None:
        self.path = path
        self.kubeconfig = cluster.kubeconfig()

    async def run(self, *arguments: str) -> tuple[int, str]:
        """Return the exit status of `kubewright bundle`, and its output."""
        return await asyncio.to_thread(run, "bundle", *arguments, folder=self.path, kubeconfig=self.kubeconfig)

    async def good(self, *arguments: str) -> str:
        status, said = await self.run(*arguments)
        assert status == 0, said
        return said

    async def refused(self, *arguments: str) -> str:
        """Return the output of a command that fails before it changes anything."""
        status, said = await self.run(*arguments)
        assert status == 1, said
        assert " created" not in said
        assert " configured" not in said
        return said

    async def killed(self, *arguments: str, when: str) -> None:
        """Kill a command as soon as it has printed `when`."""
        process = await BackgroundCommand.start("bundle", *arguments, folder=self.path, kubeconfig=self.kubeconfig)
        said = ""
        while when not in said:
            line = await process.stdout.readline()
            assert line, said
            said += line.decode()
        process.kill()
        await process.wait()


@pytest.fixture
def folder(cluster: Cluster, tmp_path: Path) -> Folder:
    return Folder(tmp_path, cluster)


@asynccontextmanager
async def removed(cluster: Cluster, *bundles: ForeignBundle) -> AsyncGenerator[None]:
    """Remove what is left of bundles at the end of the block."""
    try:
        yield
    finally:
        for each in bundles:
            found = await find_installation(cluster.client, each.package)
            if found is not None:
                await all_of(cleanup_bundle(cluster.client, found, keep_crds=False, timeout=30))


async def all_of(changes: AsyncIterator[Change]) -> list[Change]:
    return [each async for each in changes]


def cache(bundle: ForeignBundle) -> type[Unstructured]:
    """Return the kind of a bundle."""
    return Unstructured.of(APIResource(bundle.group, "v1alpha1", "Cache", "caches", "cache"))


async def create_cache(client: Client, bundle: ForeignBundle, name: str, namespace: str, **spec: object) -> None:
    body = {
        "apiVersion": f"{bundle.group}/v1alpha1",
        "kind": "Cache",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }
    await client.create(decode_object(cache(bundle), json.dumps(body).encode()))


# ---- what is installed


async def test_a_foreign_bundle_runs_and_is_removed(cluster: Cluster, folder: Folder, namespace: str) -> None:
    bundle, client = ForeignBundle(), cluster.client
    bundle.write(folder.path / "bundle")
    async with removed(cluster, bundle):
        said = await folder.good("run")
        assert f"{bundle.name} runs in namespace {bundle.namespace}" in said
        deployment = await client.get(Deployment, bundle.deployment, namespace=bundle.namespace)
        template = deployment.spec.template
        assert template.metadata.annotations["olm.targetNamespaces"] == ""
        assert template.metadata.annotations["olm.operatorNamespace"] == bundle.namespace
        assert deployment.metadata.labels == {"control-plane": "manager"}
        assert deployment.status.available_replicas == 1
        rules = await granted(client, bundle)
        assert {"leases", "caches", "tokenreviews", "namespaces"} <= rules.keys()
        assert (await client.get(Service, f"{bundle.package}-metrics", namespace=bundle.namespace)).spec.ports
        [inventory] = await inventories(client, bundle.package)
        assert (inventory.bundle, inventory.state) == (bundle.name, "installed")

        assert "10 objects unchanged" in await folder.good("run")
        assert await client.get_or_none(ClusterRole, f"{bundle.package}-metrics-reader") is not None

        await create_cache(client, bundle, "one", namespace, size=2)
        said = await folder.refused("cleanup")
        assert "1 Cache would be deleted with the CRDs" in said
        assert "Pass --yes to delete them, or --keep-crds to keep them" in said
        await folder.good("cleanup", "--keep-crds")
        assert await client.get_or_none(Namespace, bundle.namespace) is None
        assert (await client.get(cache(bundle), "one", namespace=namespace)).content["spec"] == {"size": 2}
        await folder.good("run", "--namespace", namespace, "--no-wait")  # which takes the CRDs over
        await folder.good("cleanup", bundle.package, "--yes")
        assert await client.get_or_none(CustomResourceDefinition, bundle.crd_name) is None
        said = await folder.good("cleanup", bundle.package)
        assert said == f"Nothing of package {bundle.package} is installed\n"


async def granted(client: Client, bundle: ForeignBundle) -> dict[str, list[str]]:
    """Return the verbs that the operator may use in all namespaces, by resource."""
    found: dict[str, list[str]] = {}
    for binding in await client.list(ClusterRoleBinding):
        if any((each.name, each.namespace) == (bundle.account, bundle.namespace) for each in binding.subjects):
            role = await client.get(ClusterRole, binding.role_ref.name)
            found |= {resource: list(rule.verbs) for rule in role.rules for resource in rule.resources}
    return found


async def test_an_operator_can_watch_named_namespaces(cluster: Cluster, folder: Folder, namespace: str) -> None:
    bundle, client = ForeignBundle(), cluster.client
    bundle.write(folder.path / "bundle")
    async with removed(cluster, bundle), cluster.namespace() as other:
        said = await folder.refused("run", "--watch-namespace", "not-there")
        assert "namespace not-there, which the operator is to watch, does not exist" in said
        await folder.good("run", "-n", namespace, "--watch-namespace", namespace, "--watch-namespace", other)
        deployment = await client.get(Deployment, bundle.deployment, namespace=namespace)
        targets = deployment.spec.template.metadata.annotations["olm.targetNamespaces"]
        assert targets == f"{namespace},{other}"
        assert "caches" not in await granted(client, replaced_namespace(bundle, namespace))
        for each in (namespace, other):
            [role] = [role for role in await client.list(Role, namespace=each) if bundle.package in role.metadata.name]
            assert {"leases", "caches"} <= {name for rule in role.rules for name in rule.resources}
        assert "unchanged" in await folder.good("run")
        await folder.good("cleanup")
        assert await client.get_or_none(Namespace, namespace) is not None
        assert not [role for role in await client.list(Role) if bundle.package in role.metadata.name]


def replaced_namespace(bundle: ForeignBundle, namespace: str) -> ForeignBundle:
    bundle.namespace = namespace
    return bundle


# ---- what is refused


async def test_objects_of_other_owners_are_neither_replaced_nor_deleted(
    cluster: Cluster, folder: Folder, namespace: str
) -> None:
    bundle, client = ForeignBundle(), cluster.client
    bundle.write(folder.path / "bundle")
    name = f"{bundle.package}-manager-config"
    async with removed(cluster, bundle):
        theirs = await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data={"a": "b"}))
        said = await folder.refused("run", "--namespace", namespace)
        assert f"ConfigMap {namespace}/{name}, which no bundle installed" in said
        assert await client.get_or_none(CustomResourceDefinition, bundle.crd_name) is None
        await client.delete(theirs)

        await folder.good("run", "--namespace", namespace, "--no-wait")
        said = await folder.refused("run", "--namespace", "default")
        assert f"{bundle.crd_name}, which belongs to the bundle {namespace}/{bundle.package}" in said
        await client.delete(ConfigMap, name, namespace=namespace)
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace)))
        said = await folder.good("cleanup")
        assert f"Warning: ConfigMap {name} remains" in said
        assert await client.get_or_none(ConfigMap, name, namespace=namespace) is not None


async def test_a_bundle_that_the_cluster_cannot_run_is_refused(cluster: Cluster, folder: Folder) -> None:
    kind = {"group": "not.served.test", "version": "v1", "kind": "Nothing"}
    pod = {"group": "", "version": "v1", "kind": "Pod"}
    package = {"packageName": "not-there", "version": ">=1.0.0"}
    rule = {"cel": {"rule": "properties.exists(p, p.type == 'certified' && p.value == 'yes')"}}
    constraint: dict[str, JSONObject] = {
        "none of these": {"any": {"constraints": [{"gvk": kind}, rule]}},
        "not this": {"not": {"constraints": [{"gvk": pod}]}},
        "all of these": {"all": {"constraints": [{"gvk": pod}, {"package": package}]}},
    }
    dependencies = [{"type": "olm.gvk", "value": kind}, {"type": "olm.package", "value": package}]
    properties = [
        {"type": "olm.constraint", "value": {"failureMessage": message, **value}}
        for message, value in constraint.items()
    ]
    required = {"name": "nothings.not.served.test", "version": "v1", "kind": "Nothing"}
    bundle = ForeignBundle()
    bundle.dependencies, bundle.properties = dependencies, properties
    bundle.csv_spec = {"minKubeVersion": "9.1.0", "nativeAPIs": [pod]}
    bundle.write(folder.path / "bundle")
    said = await folder.refused("run")
    assert "minKubeVersion: needs Kubernetes 9.1.0 or newer" in said
    assert "dependencies[0]: needs the kind Nothing of not.served.test/v1, which the cluster does not serve" in said
    assert 'dependencies[1]: needs package not-there in a version ">=1.0.0", and the cluster does not have it' in said
    for place, message in enumerate(constraint):
        assert f"properties[{place}]: {message} (" in said
    assert "no installed package fulfills" in said
    assert await cluster.client.get_or_none(Namespace, bundle.namespace) is None

    bundle.dependencies, bundle.properties, bundle.csv_spec, bundle.modes = [], [], {}, ["SingleNamespace"]
    single = bundle.write(folder.path / "single")
    said = await folder.refused("run", str(single))
    assert "the bundle supports SingleNamespace. Name one other namespace with --watch-namespace" in said
    bundle.modes = ["AllNamespaces"]
    everywhere = bundle.write(folder.path / "everywhere")
    said = await folder.refused("run", str(everywhere), "--watch-namespace", "default")
    assert "that needs the install mode SingleNamespace, and the bundle supports AllNamespaces" in said
    bundle.csv_spec = {"customresourcedefinitions": {"required": [required], "owned": owned(bundle)}}
    needing = bundle.write(folder.path / "needing")
    said = await folder.refused("run", str(needing))
    assert "spec.customresourcedefinitions.required: needs the kind Nothing of not.served.test/v1" in said
    assert "there is no folder nothing; name the folder of a bundle" in await folder.refused("run", "nothing")


def owned(bundle: ForeignBundle) -> list[JSONObject]:
    return [{"name": bundle.crd_name, "version": "v1alpha1", "kind": "Cache", "displayName": "Cache"}]


async def test_installed_packages_fulfill_dependencies(cluster: Cluster, folder: Folder) -> None:
    first, second = ForeignBundle(), ForeignBundle()
    first.write(folder.path / "first")
    rule = f"properties.exists(p, p.type == 'olm.package' && p.value.packageName == '{first.package}' && "
    rule += "semver_compare(p.value.version, '0.1.0') == 0)"
    second.dependencies = [
        {"type": "olm.package", "value": {"packageName": first.package, "version": "<0.2.0"}},
        {"type": "olm.gvk", "value": {"group": first.group, "version": "v1alpha1", "kind": "Cache"}},
        {"type": "olm.constraint", "value": {"failureMessage": "no first", "cel": {"rule": rule}}},
    ]
    second.write(folder.path / "second")
    async with removed(cluster, first, second):
        assert "no first" in await folder.refused("run", "second", "--no-wait")
        await folder.good("run", "first", "--no-wait")
        await folder.good("run", "second", "--no-wait")


# ---- upgrades


async def test_a_bundle_is_upgraded_along_the_graph(cluster: Cluster, folder: Folder) -> None:
    bundle, client = ForeignBundle(), cluster.client
    folders = [write_version(bundle, folder.path, each) for each in ("0.1.0", "0.2.0", "0.3.0", "0.4.0")]
    write_catalog(bundle, folder.path / "catalog", [entry(bundle, "0.1.0"), entry(bundle, "0.2.0", "0.1.0")])
    async with removed(cluster, bundle), condition_kind(client):
        said = await folder.refused("upgrade", str(folders[0]))
        assert f"package {bundle.package} is not installed; `kubewright bundle run` installs it" in said
        await folder.good("run", str(folders[0]))
        roles = await roles_of(client, bundle)
        said = await folder.refused("run", str(folders[1]))
        assert f"{bundle.package}.v0.1.0 is installed" in said
        said = await folder.refused("upgrade", str(folders[2]))
        assert f"{bundle.package}.v0.3.0 does not follow it directly: it replaces {bundle.package}.v0.2.0" in said

        await hold(client, bundle, "0.1.0", "a backup is running")
        said = await folder.refused("upgrade", str(folders[1]))
        assert "not upgradeable: a backup is running" in said
        await client.delete(Unstructured.of(CONDITION), f"{bundle.package}.v0.1.0", namespace=bundle.namespace)
        said = await folder.good("upgrade", str(folders[1]))
        assert f"configmap/{bundle.package}-manager-config (in {bundle.namespace}) deleted" in said
        assert not roles & await roles_of(client, bundle)
        assert await client.get_or_none(Service, f"{bundle.package}-extra", namespace=bundle.namespace) is not None
        assert "is installed already" in await folder.good("upgrade", str(folders[1]))

        graph = [entry(bundle, "0.1.0"), entry(bundle, "0.2.0", "0.1.0"), entry(bundle, "0.3.0", "0.2.0")]
        write_catalog(bundle, folder.path / "newer", [*graph, entry(bundle, "0.4.0", "0.3.0")])
        said = await folder.good("upgrade", "--catalog", "newer", "--bundles", "v*", "--to", "0.3.0")
        assert f"Steps: {bundle.package}.v0.2.0 -> {bundle.package}.v0.3.0" in said
        said = await folder.good("upgrade", "--catalog", "newer", "--bundles", "v*")
        assert f"Steps: {bundle.package}.v0.3.0 -> {bundle.package}.v0.4.0" in said
        said = await folder.refused("upgrade", "--catalog", "catalog", "--bundles", "v*")
        assert f"no upgrade leads from {bundle.package}.v0.4.0 to {bundle.package}.v0.2.0" in said
        said = await folder.refused("upgrade", str(folders[0]))
        assert f"{bundle.package}.v0.1.0 is older; an upgrade goes forward only" in said
        bundle.version, bundle.csv_spec, bundle.annotations = "0.5.0", {}, {"olm.skipRange": "<0.5"}
        said = await folder.refused("upgrade", str(bundle.write(folder.path / "v0.5.0")))
        assert "olm.skipRange: " in said
        assert 'correct it in the bundle, for example ">=1.0.0 <1.2.0"' in said


def write_version(bundle: ForeignBundle, root: Path, version: str) -> Path:
    """Write the bundle of a version. Later ones than the first have a Service more, and no ConfigMap."""
    before = f"{bundle.package}.v0.{int(version.split('.')[1]) - 1}.0"
    bundle.version = version
    if version != "0.1.0":
        bundle.csv_spec = {"replaces": before}
        extra = {"ports": [{"port": 80}], "selector": {"control-plane": bundle.package}}
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{bundle.package}-extra"}}
        kept = [each for each in bundle.others if each["kind"] != "ConfigMap"]
        bundle.others = [*kept[:2], {**service, "spec": extra}]
    return bundle.write(root / f"v{version}")


def entry(bundle: ForeignBundle, version: str, replaces: str = "") -> JSONObject:
    name = f"{bundle.package}.v{version}"
    return {"name": name, **({"replaces": f"{bundle.package}.v{replaces}"} if replaces else {})}


def write_catalog(bundle: ForeignBundle, folder: Path, entries: list[JSONObject]) -> None:
    package = {"schema": "olm.package", "name": bundle.package, "defaultChannel": "alpha"}
    channel = {"schema": "olm.channel", "name": "alpha", "package": bundle.package, "entries": entries}
    bundles = [
        {
            "schema": "olm.bundle",
            "name": each["name"],
            "package": bundle.package,
            "image": f"registry.test/{bundle.package}-bundle:latest",
            "properties": [
                {
                    "type": "olm.package",
                    "value": {"packageName": bundle.package, "version": each["name"].partition(".v")[2]},
                }
            ],
        }
        for each in entries
    ]
    folder.mkdir()
    (folder / "catalog.yaml").write_text(yaml.dump(package, channel, *bundles))


async def roles_of(client: Client, bundle: ForeignBundle) -> set[str]:
    names = {each.metadata.name for each in await client.list(ClusterRole)}
    return {each for each in names if each.startswith(f"{bundle.package}.v")}


@asynccontextmanager
async def condition_kind(client: Client) -> AsyncGenerator[None]:
    """Install the kind OperatorCondition, unless the cluster has it."""
    name = f"{CONDITION.plural}.{CONDITION.group}"
    if await client.get_or_none(CustomResourceDefinition, name) is not None:
        yield
        return
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": CONDITION.kind, "plural": CONDITION.plural}
    spec = {"group": CONDITION.group, "names": names, "scope": "Namespaced", "versions": [version]}
    document: Any = {"metadata": {"name": name}, "spec": spec}
    crd = await client.create(codec.from_dict(CustomResourceDefinition, document))
    await until_established(client, name)
    yield
    await client.delete(crd)
    await client.wait_until_gone(CustomResourceDefinition, name)


async def hold(client: Client, bundle: ForeignBundle, version: str, message: str) -> None:
    """Say that the installed version cannot be upgraded."""
    status = {"conditions": [{"type": "Upgradeable", "status": "False", "message": message, "observedGeneration": 1}]}
    document = {
        "apiVersion": CONDITION.api_version,
        "kind": CONDITION.kind,
        "metadata": {"name": f"{bundle.package}.v{version}", "namespace": bundle.namespace},
        "status": status,
    }
    await client.create(decode_object(Unstructured.of(CONDITION), json.dumps(document).encode()))


async def test_a_run_that_is_killed_after_a_write_is_finished_by_the_next(cluster: Cluster, tmp_path: Path) -> None:
    await kill_after(cluster, tmp_path, (2, 6, 12))


@pytest.mark.long
async def test_a_run_that_is_killed_after_any_write_is_finished_by_the_next(cluster: Cluster, tmp_path: Path) -> None:
    await kill_after(cluster, tmp_path, count(1))


async def kill_after(cluster: Cluster, folder: Path, numbers: Iterable[int]) -> None:
    """Install, upgrade and clean up a bundle, killed after these numbers of writes, until none dies."""
    reference: dict[str, object] | None = None
    bundle, client = ForeignBundle(), cluster.client
    bundle.webhooks = [webhook(bundle)]
    old, new = (InstallableBundle.read(write_version(bundle, folder, each)) for each in ("0.1.0", "0.2.0"))
    works: list[Callable[[Client], Any]] = [
        lambda client: installed(client, old, bundle.namespace),
        lambda client: installed(client, new, bundle.namespace),
        lambda client: cleaned(client, bundle.package),
    ]
    async with removed(cluster, bundle):
        for number in numbers:
            died = [await killed_and_finished(cluster, number, each) for each in works[:2]]
            state = await contents(client, bundle.package)
            reference = reference or state
            assert state == reference
            died.append(await killed_and_finished(cluster, number, works[2]))
            assert await find_installation(client, bundle.package) is None
            assert await client.get_or_none(Namespace, bundle.namespace) is None
            assert not await roles_of(client, bundle)
            if not any(died):
                break


async def killed_and_finished(cluster: Cluster, number: int, work: Callable[[Client], Any]) -> bool:
    """Do the work in a process that dies after a write, and then in one that lives. Returns whether the first died."""
    faults = Faults(cluster.config)
    faults.dies_after = number
    async with Client(transport=faults, field_manager=FIELD_MANAGER) as client:
        with suppress(ConnectionFailed):
            await work(client)
    async with Client(cluster.config, field_manager=FIELD_MANAGER) as client:
        await work(client)
    return faults.died


async def installed(client: Client, bundle: InstallableBundle, namespace: str) -> None:
    found = await inventories(client, bundle.package, namespace)
    options = InstallOptions(namespace, timeout=None)
    await all_of(install_bundle(client, bundle, options, found[0] if found else None))


async def cleaned(client: Client, package: str) -> None:
    found = await find_installation(client, package)
    if found is not None:
        await all_of(cleanup_bundle(client, found, keep_crds=False, timeout=30))


async def contents(client: Client, package: str) -> dict[str, object]:
    """Return every object of an installation without what differs after each creation, and its inventory.

    Fails if the API server does not trust the certificate of the webhooks.
    """
    [inventory] = await inventories(client, package)
    objects = Objects(client)
    trusted = [b64encode(each["ca.crt"]).decode() for each in await secrets_of(client, inventory)]
    found: dict[str, object] = {"inventory": {**to_builtins(inventory), "trusted": list(inventory.trusted)}}
    for each in inventory.objects:
        obj = await client.get(await objects.kind(each.document), each.name, namespace=each.namespace or None)
        content = {key: value for key, value in obj.content.items() if key not in ("status", "data")}
        if each.kind == "Service":
            content["spec"] = {key: value for key, value in content["spec"].items() if not key.startswith("cluster")}
        elif each.kind == "Deployment":
            assert content["spec"]["template"]["metadata"]["annotations"].pop(CERTIFICATE_DIGEST)
        elif each.kind == "ValidatingWebhookConfiguration":
            assert [content["webhooks"][0]["clientConfig"].pop("caBundle")] == trusted
        found[f"{each.kind} {each.name}"] = (obj.metadata.labels, obj.metadata.annotations.get(OWNER), content)
    return found


async def secrets_of(client: Client, inventory: Inventory) -> list[dict[str, bytes]]:
    names = [each.name for each in inventory.objects if each.kind == "Secret"]
    return [(await client.get(Secret, each, namespace=inventory.namespace)).data for each in names]


async def test_a_killed_command_is_finished_by_the_next(cluster: Cluster, folder: Folder) -> None:
    bundle = ForeignBundle()
    bundle.write(folder.path / "bundle")
    async with removed(cluster, bundle):
        await folder.killed("run", when="serviceaccount/")
        assert "created" in await folder.good("run")
        [inventory] = await inventories(cluster.client, bundle.package)
        assert inventory.state == "installed"


# ---- CRDs


async def test_crds_that_break_users_are_refused(cluster: Cluster, folder: Folder, namespace: str) -> None:
    bundle, client = ForeignBundle(), cluster.client
    del bundle.schema["properties"]["spec"]["properties"]["size"]["minimum"]
    first = bundle.write(folder.path / "first")
    async with removed(cluster, bundle):
        await folder.good("run", str(first), "--no-wait")
        await create_cache(client, bundle, "zero", namespace, size=0)
        size = bundle.schema["properties"]["spec"]["properties"]["size"]
        size["minimum"] = 1
        second = bundle.write(folder.path / "second")
        said = await folder.refused("run", str(second), "--no-wait")
        assert "CRDs of the bundle are not compatible" in said
        assert "v1alpha1 spec.size: minimum 1 added" in said
        await folder.good("run", str(second), "--no-wait", "--unsafe-crds")
        bundle.schema["properties"]["spec"]["properties"]["note"] = {"type": "string"}
        third = bundle.write(folder.path / "third")
        said = await folder.refused("run", str(third), "--no-wait")
        assert f"v1alpha1 rejects cache.{bundle.group}/zero (in {namespace}): spec.size" in said
        await client.delete(cache(bundle), "zero", namespace=namespace)
        await folder.good("run", str(third), "--no-wait")
        await check_crd_changes(client, await definition(client, bundle.crd_name))


async def definition(client: Client, name: str) -> JSONObject:
    found = await client.get(Unstructured.of(CustomResourceDefinition.__api__), name)
    return {"metadata": {"name": name}, **found.content}


async def check_crd_changes(client: Client, crd: JSONObject) -> None:
    """Compare what is found about one change each with what OLM finds."""
    fields: JSONObject = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    original, size = dict(fields), dict(fields["size"])
    assert not await upgrade_problems(client, crd)
    refused: dict[str, JSONObject] = {
        "type changed": {**size, "type": "string"},
        "default": {**size, "default": 3},
        "rule": {**size, "x-kubernetes-validations": [{"rule": "self != 5"}]},
        "enum [1] added": {**size, "enum": [1]},
        "minimum changed from 1 to 2": {**size, "minimum": 2},
        "maximum 5 added": {**size, "maximum": 5},
        "format": {**size, "format": "int32"},
        "nullable": {**size, "nullable": True},
    }
    for expected, schema in refused.items():
        fields["size"] = schema
        problems = await upgrade_problems(client, crd)
        assert any(expected in each for each in problems), (expected, problems)
    for schema in ({**size, "minimum": 0}, {**size, "description": "How many.", "nullable": False}):
        fields["size"] = schema
        assert not await upgrade_problems(client, crd)
    fields.clear()
    fields.update({key: value for key, value in original.items() if key != "size"})
    assert any("spec.size: field removed" in each for each in await upgrade_problems(client, crd))
    fields["size"] = size
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["required"] = ["size"]
    assert any("required" in each for each in await upgrade_problems(client, crd))
    del spec["required"]
    crd["spec"]["scope"] = "Cluster"
    assert any("scope changed from Namespaced to Cluster" in each for each in await upgrade_problems(client, crd))
    crd["spec"]["scope"] = "Namespaced"
    crd["spec"]["versions"][0]["name"] = "v1"
    assert any("objects may be stored: v1alpha1" in each for each in await upgrade_problems(client, crd))


# ---- certificates


class Later(SystemClock):
    """A clock that is ahead."""

    def __init__(self, days: int) -> None:
        self._ahead = timedelta(days=days)

    def now(self) -> datetime:
        return super().now() + self._ahead


async def test_certificates_of_webhooks_are_renewed(cluster: Cluster, tmp_path: Path) -> None:
    bundle = ForeignBundle()
    bundle.webhooks = [webhook(bundle)]
    read = InstallableBundle.read(bundle.write(tmp_path / "bundle"))
    async with removed(cluster, bundle):
        await installed(cluster.client, read, bundle.namespace)
        first = await secret_of(cluster.client, bundle)
        await installed(cluster.client, read, bundle.namespace)
        assert (await secret_of(cluster.client, bundle)) == first
        later = Client(cluster.config, field_manager=FIELD_MANAGER, clock=Later(300))
        async with later:
            await installed(later, read, bundle.namespace)
        second = await secret_of(cluster.client, bundle)
        assert second["tls.crt"] != first["tls.crt"]
        assert second["ca.crt"] == first["ca.crt"]
        configuration = Unstructured.of(
            APIResource(
                "admissionregistration.k8s.io",
                "v1",
                "ValidatingWebhookConfiguration",
                "validatingwebhookconfigurations",
                namespaced=False,
            )
        )
        found = (await cluster.client.get(configuration, f"vcache.{bundle.group}")).content["webhooks"][0]
        assert found["clientConfig"]["service"]["name"] == f"{bundle.deployment}-service"
        assert found["clientConfig"]["caBundle"]


def webhook(bundle: ForeignBundle) -> JSONObject:
    rule = {"apiGroups": [bundle.group], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["caches"]}
    return {
        "generateName": f"vcache.{bundle.group}",
        "type": "ValidatingAdmissionWebhook",
        "deploymentName": bundle.deployment,
        "containerPort": 443,
        "targetPort": 9443,
        "rules": [rule],
        "failurePolicy": "Ignore",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "webhookPath": "/validate",
    }


async def secret_of(client: Client, bundle: ForeignBundle) -> dict[str, bytes]:
    return (await client.get(Secret, f"{bundle.deployment}-service-cert", namespace=bundle.namespace)).data


def test_bundles_that_olm_cannot_install_are_refused(tmp_path: Path) -> None:
    bundle = ForeignBundle()
    wrong: dict[str, JSONObject] = {
        'spec.webhookdefinitions[0].deploymentName "other"': {"deploymentName": "other"},
        'spec.webhookdefinitions[0].rules "*"': {"rules": [{"apiGroups": ["*"]}]},
        'spec.webhookdefinitions[0].type "Conversion"': {"type": "Conversion"},
    }
    for expected, change in wrong.items():
        bundle.webhooks = [{**webhook(bundle), **change}]
        folder = bundle.write(tmp_path / "bundle")
        with pytest.raises(ConfigError, match=r"spec\.webhookdefinitions") as caught:
            render_bundle(InstallableBundle.read(folder), Placement("default", ()))
        assert expected in str(caught.value)
        shutil.rmtree(folder)
    large = bundle.write(tmp_path / "large")
    with (large / "manifests/large.yaml").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ConfigError, match=r"the files have more than 67108864 bytes, .*/large\.yaml among them"):
        InstallableBundle.read(large)
