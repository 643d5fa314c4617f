"""StorageVersionMigration: its API, and the controller that writes the objects. It is off by default."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio

from conformance.rawapi import API, until
from kubewright.client._config import Config
from kubewright.testing import eventually
from kubewright.testing._plugin import _on_a_thread  # pyright: ignore[reportPrivateUsage]
from kubewright_controlplane import Environment, ServerOptions
from kubewright_controlplane.real import RealControlPlane

VERSION = "storagemigration.k8s.io/v1beta1"
ROOT = f"/apis/{VERSION}"
MIGRATIONS = f"{ROOT}/storageversionmigrations"
ROLE = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:controller:storage-version-migrator-controller"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


async def test_the_api_is_off_by_default(kubewright_target: str, api: API) -> None:
    if kubewright_target == "kubeconfig":
        pytest.skip("a cluster may have switched it on")
    assert (await api.get(ROOT)).status == 404
    assert (await api.get(MIGRATIONS)).status == 404
    groups = (await api.get("/apis")).expect(200).json["groups"]
    assert "storagemigration.k8s.io" not in [each["name"] for each in groups]
    paths = (await api.get("/openapi/v3")).expect(200).json["paths"]
    assert not [path for path in paths if "storagemigration" in path]
    assert (await api.get(f"/openapi/v3{ROOT}")).status == 404
    assert (await api.get(ROLE)).status == 404


@asynccontextmanager
async def _control_plane(target: str) -> AsyncGenerator[Config]:
    if target == "real":
        gate = "--feature-gates=StorageVersionMigrator=true"
        real = RealControlPlane(
            api_server_arguments=(f"--runtime-config={VERSION}=true", gate), controller_manager_arguments=(gate,)
        )
        async with real:
            yield real.config
    else:
        async with Environment(server=ServerOptions(runtime_config={VERSION: True})) as cluster:
            yield cluster.config


@pytest.fixture(scope="module")
def with_migrations(kubewright_target: str) -> Iterator[Config]:
    """A control plane that has the API."""
    if kubewright_target == "kubeconfig":
        pytest.skip("a cluster may not have the API")
    context: AbstractAsyncContextManager[Config] = _control_plane(kubewright_target)
    with _on_a_thread(context) as config:
        yield config


@pytest_asyncio.fixture
async def svm(with_migrations: Config) -> AsyncIterator[API]:
    api = API(with_migrations)
    yield api
    await api.close()


def migration(resource: str = "secrets", group: str = "", name: str = "") -> dict[str, Any]:
    target = {"resource": resource, "group": group}
    return {"metadata": {"name": name or f"m-{secrets.token_hex(4)}"}, "spec": {"resource": target}}


async def created(api: API, body: dict[str, Any]) -> str:
    """Create a migration and return its path."""
    made = (await api.post(MIGRATIONS, body)).expect(201).json
    return f"{MIGRATIONS}/{made['metadata']['name']}"


async def test_discovery_and_openapi_describe_the_kind(svm: API) -> None:
    found = (await svm.get(ROOT)).expect(200).json
    entries = {each["name"]: each for each in found["resources"]}
    kind = entries["storageversionmigrations"]
    assert (kind["kind"], kind["namespaced"], kind["singularName"]) == (
        "StorageVersionMigration", False, "storageversionmigration"
    )  # fmt: skip
    assert entries["storageversionmigrations/status"]["verbs"] == ["get", "patch", "update"]
    assert ROOT[1:] in (await svm.get("/openapi/v3")).expect(200).json["paths"]
    schemas = (await svm.get(f"/openapi/v3{ROOT}")).expect(200).json["components"]["schemas"]
    assert "io.k8s.api.storagemigration.v1beta1.StorageVersionMigration" in schemas


async def test_the_controller_has_its_role(svm: API) -> None:
    rules = (await svm.get(ROLE)).expect(200).json["rules"]
    assert {"verbs": ["create", "list", "patch"], "apiGroups": ["*"], "resources": ["*"]} in rules


async def ended(api: API, path: str) -> dict[str, Any]:
    """Wait until a migration has ended, and return its conditions by type."""

    async def conditions() -> dict[str, Any]:
        status = (await api.get(path)).expect(200).json["status"]
        found = {each["type"]: each for each in status.get("conditions", ())}
        assert found.get("Running", {}).get("status") == "False", found
        return found

    return await eventually(conditions)


LABEL = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("target", "field", "message"),
    [
        ({}, "spec.resource.resource", "Required value: resource is required to be set"),
        ({"resource": "Secrets"}, "spec.resource.resource", f'Invalid value: "Secrets": {LABEL}'),
        ({"resource": "secrets", "group": "-"}, "spec.resource.group", 'Invalid value: "-": a lowercase RFC 1123 sub'),
    ],
)
async def test_an_invalid_resource_is_rejected(svm: API, target: dict[str, str], field: str, message: str) -> None:
    answer = (await svm.post(MIGRATIONS, {"metadata": {"name": "invalid"}, "spec": {"resource": target}})).expect(422)
    [cause] = answer.json["details"]["causes"]
    assert cause["field"] == field
    assert cause["message"].startswith(message)


async def test_the_spec_cannot_be_changed(svm: API) -> None:
    path = await created(svm, migration())
    answer = (await svm.patch(path, {"spec": {"resource": {"resource": "configmaps"}}})).expect(422)
    shown = '{"Resource":{"group":"","resource":"configmaps"}}'
    assert answer.causes == [("FieldValueInvalid", "spec", f"Invalid value: {shown}: field is immutable")]
    (await svm.patch(path, {"metadata": {"labels": {"a": "b"}}})).expect(200)
    unversioned = migration(name=path.rpartition("/")[2])
    answer = (await svm.put(path, unversioned)).expect(422)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in answer.message


async def test_a_status_that_is_created_is_dropped(svm: API) -> None:
    made = (await svm.post(f"{MIGRATIONS}?dryRun=All", migration() | {"status": {"resourceVersion": "5"}})).expect(201)
    assert "resourceVersion" not in made.json["status"]


def condition(kind: str, status: str = "True", reason: str = "Done", **more: object) -> dict[str, object]:
    moment = "2026-01-01T00:00:00Z"
    return {"type": kind, "status": status, "lastTransitionTime": moment, "reason": reason, "message": ""} | more


async def that_has_failed(api: API) -> str:
    """Return the path of a migration that the controller leaves alone."""
    path = await created(api, migration("tokenreviews", "authentication.k8s.io"))
    await ended(api, path)
    return path


async def test_the_status_only_moves_forward(svm: API) -> None:
    path = await that_has_failed(svm)

    async def reported(status: dict[str, object], code: int = 200) -> list[tuple[str, str, str]]:
        return (await svm.patch(f"{path}/status", {"status": status})).expect(code).causes

    assert await reported({"resourceVersion": "abc"}, 422) == [
        (
            "FieldValueInvalid",
            "status.resourceVersion",
            'Invalid value: "abc": resource version is not well formed: abc',
        )
    ]
    await reported({"resourceVersion": "7"})
    assert await reported({"resourceVersion": "8"}, 422) == [
        ("FieldValueInvalid", "status.resourceVersion", 'Invalid value: "8": field is immutable')
    ]
    both = await reported({"conditions": [condition("Succeeded"), condition("Failed")]}, 422)
    assert [(field, message.rpartition(": ")[2]) for _, field, message in both] == [
        ("status.conditions", "Both success and failed conditions cannot be true at the same time")
    ]
    changed = await reported({"conditions": [condition("Failed", "False")]}, 422)
    shown = (
        '[{"type":"Failed","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"Done","message":""}]'
    )
    text = f"Invalid value: {shown}: Failed condition cannot be set to false once it is true"
    assert changed == [("FieldValueInvalid", "status.conditions", text)]


async def test_conditions_are_checked(svm: API) -> None:
    path = await that_has_failed(svm)
    wrong = {**condition("a b", "Maybe", "1st", observedGeneration=-1), "lastTransitionTime": None}
    answer = await svm.patch(f"{path}/status", {"status": {"conditions": [wrong]}})
    found = {field: message for _, field, message in answer.expect(422).causes}
    assert found["status.conditions[0].status"] == (
        'Unsupported value: "Maybe": supported values: "False", "True", "Unknown"'
    )
    assert found["status.conditions[0].lastTransitionTime"] == "Required value"
    assert found["status.conditions[0].observedGeneration"] == (
        "Invalid value: -1: must be greater than or equal to zero"
    )
    assert found["status.conditions[0].reason"].startswith(
        'Invalid value: "1st": a condition reason must start with alphabetic character, '
    )
    assert found["status.conditions[0].type"].startswith('Invalid value: "a b": name part must consist of ')
    twice = [condition("A"), condition("A", "False")]
    answer = await svm.patch(f"{path}/status", {"status": {"conditions": twice}}, "apply")
    assert answer.status in (400, 422, 500)


async def test_a_resource_that_cannot_be_listed_is_not_migrated(svm: API) -> None:
    path = await created(svm, migration("tokenreviews", "authentication.k8s.io"))
    conditions = await ended(svm, path)
    assert conditions["Failed"]["reason"] == "StorageVersionMigrationFailed"
    assert conditions["Failed"]["message"] == (
        'resource "authentication.k8s.io/v1, Resource=tokenreviews" does not support discovery operations: '
        "[update patch list]"
    )
    assert conditions["Running"]["reason"] == "MigrationCompleted"
    assert conditions["Running"]["message"] == "Migration completed"
    table = (await svm.get(path, accept=TABLE)).expect(200).json
    assert [each["name"] for each in table["columnDefinitions"]] == ["Name", "Resource", "Status"]
    assert table["rows"][0]["cells"][1:] == ["tokenreviews.authentication.k8s.io", "Failed"]


class Boats:
    """A kind in two versions, v1 and v2, with objects in every version that was the storage version."""

    def __init__(self, api: API) -> None:
        self.api = api
        self.group = f"fleet-{secrets.token_hex(4)}.example.com"
        self.name = f"boats.{self.group}"
        self.path = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{self.name}"
        self.objects = f"/apis/{self.group}/v1/namespaces/default/boats"

    def versions(self, storage: str, rule: str = "true") -> list[dict[str, Any]]:
        rules = [{"rule": rule, "message": "not today"}]
        size = {"type": "integer", "x-kubernetes-validations": rules}
        schema = {"openAPIV3Schema": {"type": "object", "properties": {"size": size}}}
        return [{"name": each, "served": True, "storage": each == storage, "schema": schema} for each in ("v1", "v2")]

    async def install(self) -> None:
        names = {"plural": "boats", "singular": "boat", "kind": "Boat"}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": self.versions("v1")}
        collection = self.path.rpartition("/")[0]
        (await self.api.post(collection, {"metadata": {"name": self.name}, "spec": spec})).expect(201)

        async def is_served() -> bool:
            return (await self.api.get(self.objects)).status == 200

        await until(is_served)
        for number in range(3):
            await self.create(f"boat-{number}")

    async def create(self, name: str) -> None:
        body = {"apiVersion": f"{self.group}/v1", "kind": "Boat", "metadata": {"name": name}, "size": 1}
        (await self.api.post(self.objects, body)).expect(201)

    async def store_in(self, version: str, rule: str = "true") -> None:
        (await self.api.patch(self.path, {"spec": {"versions": self.versions(version, rule)}})).expect(200)

    async def migrate(self) -> dict[str, Any]:
        """Migrate the objects, and return the conditions.

        The controller of Kubernetes pauses between its attempts, until the migration changes. It waits for a change of
        the kind that is later than status.resourceVersion.
        """
        path = await created(self.api, migration("boats", self.group))
        async with asyncio.timeout(240):
            return await self._ended(path)

    async def _ended(self, path: str) -> dict[str, Any]:
        while True:
            status = (await self.api.get(path)).expect(200).json.get("status", {})
            found = {each["type"]: each for each in status.get("conditions", ())}
            if found.get("Running", {}).get("status") == "False":
                return found
            if status.get("resourceVersion"):
                await self.create(f"later-{secrets.token_hex(4)}")
            await asyncio.sleep(1)
            touched = {"metadata": {"annotations": {"touched": secrets.token_hex(4)}}}
            (await self.api.patch(path, touched)).expect(200)
            await asyncio.sleep(1)

    async def status(self) -> dict[str, Any]:
        found: dict[str, Any] = (await self.api.get(self.path)).expect(200).json["status"]
        return found


async def test_the_objects_of_a_crd_are_migrated_by_one_migration_after_the_other(svm: API) -> None:
    boats = Boats(svm)
    await boats.install()
    before = (await svm.get(f"{boats.objects}/boat-0")).json
    await boats.store_in("v2")
    assert (await boats.status())["storedVersions"] == ["v1", "v2"]
    for conditions in await asyncio.gather(boats.migrate(), boats.migrate()):
        assert (conditions["Succeeded"]["status"], conditions["Succeeded"]["reason"]) == (
            "True", "StorageVersionMigrationSucceeded"
        )  # fmt: skip
        assert conditions["Running"]["reason"] == "MigrationCompleted"
    status = await boats.status()
    assert status["storedVersions"] == ["v2"]
    found = next(each for each in status["conditions"] if each["type"] == "StorageMigrating")
    assert (found["status"], found["reason"]) == ("False", "MigrationSucceeded")
    assert found["message"] == "The migration has succeeded and the stored versions have been updated"
    assert found["observedGeneration"] == 2
    after = (await svm.get(f"{boats.objects}/boat-0")).json
    unchanged = ("uid", "generation", "creationTimestamp")
    assert [after["metadata"].get(each) for each in unchanged] == [before["metadata"].get(each) for each in unchanged]


async def test_an_object_that_the_api_server_refuses_fails_the_migration(kubewright_target: str, svm: API) -> None:
    boats = Boats(svm)
    await boats.install()
    await boats.store_in("v2", "self > oldSelf")
    conditions = await boats.migrate()
    message = conditions["Failed"]["message"]
    assert message.startswith(f'migration encountered unhandled error: Boat.{boats.group} "boat-')
    assert message.endswith('" is invalid: size: Invalid value: 1: not today')
    status = await boats.status()
    if (
        kubewright_target == "embedded"
    ):  # the controller of Kubernetes 1.36 removes v1 although objects are stored in it
        assert status["storedVersions"] == ["v1", "v2"]
    found = next(each for each in status["conditions"] if each["type"] == "StorageMigrating")
    assert (found["status"], found["reason"], found["message"]) == (
        "False", "MigrationFailed", "The migration has failed"
    )  # fmt: skip
