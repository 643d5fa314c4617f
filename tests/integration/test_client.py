"""The client with a control plane: every verb."""

from contextlib import aclosing
from typing import Annotated

import pytest

from kubewright.apis.apps.v1 import Deployment, DeploymentSpec
from kubewright.apis.core.v1 import ConfigMap, Container, ContainerPort, PodSpec, PodTemplateSpec
from kubewright.apis.meta.v1 import LabelSelector, ObjectMeta
from kubewright.client import (
    Bookmark,
    Client,
    JSONPatch,
    MergePatch,
    PartialObjectMetadata,
    RESTMapper,
    StrategicPatch,
    Unstructured,
    extract,
)
from kubewright.machinery.errors import (
    AlreadyExists,
    BadRequest,
    ConfigError,
    Conflict,
    ConnectionFailed,
    DecodeError,
    Invalid,
    NotFound,
)
from kubewright.markers import Minimum
from kubewright.models import CustomResource, Model, codec, field
from kubewright.testing._cluster import Cluster
from kubewright.testing._waiting import eventually


class GadgetSpec(Model):
    size: Annotated[int, Minimum(0)] = 1
    color: str | None = None


class GadgetStatus(Model):
    size: int | None = None


class Gadget(CustomResource, group="client.test", version="v1"):
    """Gadget is a kind for tests of the client."""

    spec: GadgetSpec = field(default_factory=GadgetSpec)
    status: GadgetStatus = field(default_factory=GadgetStatus)


class Uninstalled(CustomResource, group="client.test", version="v1"):
    """Uninstalled is a kind without a CustomResourceDefinition."""


@pytest.fixture
def client(cluster: Cluster) -> Client:
    return cluster.client


@pytest.fixture
async def gadgets(cluster: Cluster) -> None:
    await cluster.install(Gadget)


def config_map(namespace: str, name: str = "a", **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace), data=data)


async def test_an_object_is_created_read_changed_and_deleted(client: Client, namespace: str) -> None:
    made = await client.create(config_map(namespace, k="1"))
    assert made.metadata.uid
    read = await client.get(ConfigMap, "a", namespace=namespace)
    assert read.data == {"k": "1"}
    read.data["k"] = "2"
    changed = await client.update(read)
    assert int(changed.metadata.resource_version) > int(made.metadata.resource_version)
    await client.delete(changed)
    with pytest.raises(NotFound, match='configmaps "a" not found'):
        await client.get(ConfigMap, "a", namespace=namespace)


async def test_the_server_can_generate_a_name(client: Client, namespace: str) -> None:
    metadata = ObjectMeta(generate_name="made-", namespace=namespace)
    made = [await client.create(ConfigMap(metadata=metadata)) for _ in range(2)]
    assert made[0].metadata.name.startswith("made-")
    assert made[0].metadata.name != made[1].metadata.name


async def test_a_name_that_exists_is_rejected(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace))
    with pytest.raises(AlreadyExists, match='"a" already exists'):
        await client.create(config_map(namespace))


async def test_an_update_of_an_old_version_is_a_conflict(client: Client, namespace: str) -> None:
    old = await client.create(config_map(namespace, k="1"))
    await client.patch(old, MergePatch({"data": {"k": "2"}}))
    old.data["k"] = "3"
    with pytest.raises(Conflict, match="the object has been modified"):
        await client.update(old)


async def test_an_object_that_may_be_missing_is_found_or_none(client: Client, namespace: str) -> None:
    assert await client.get_or_none(ConfigMap, "a", namespace=namespace) is None
    made = await client.create(config_map(namespace, k="1"))
    assert await client.get_or_none(ConfigMap, "a", namespace=namespace) == made


async def test_each_type_of_patch_changes_its_fields(client: Client, namespace: str) -> None:
    obj = await client.create(config_map(namespace, a="1", b="2", c="3"))
    obj = await client.patch(obj, MergePatch({"data": {"a": None}}))
    assert obj.data == {"b": "2", "c": "3"}
    obj = await client.patch(
        obj, JSONPatch([{"op": "test", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/b"}])
    )
    assert obj.data == {"c": "3"}
    obj = await client.patch(ConfigMap, StrategicPatch({"data": {"d": "4"}}), name="a", namespace=namespace)
    assert obj.data == {"c": "3", "d": "4"}
    with pytest.raises(Invalid) as refused:
        await client.patch(obj, JSONPatch([{"op": "test", "path": "/data/c", "value": "another"}]))
    assert refused.value.patch_did_not_apply


async def test_apply_creates_takes_over_and_releases_fields(client: Client, namespace: str) -> None:
    await client.apply(config_map(namespace, a="1", b="2"), field_manager="one")
    with pytest.raises(Conflict, match=r'conflict with "one": \.data\.a'):
        await client.apply(config_map(namespace, a="9"), field_manager="two", force=False)
    taken = await client.apply(config_map(namespace, a="9"), field_manager="two")
    assert taken.data == {"a": "9", "b": "2"}
    less = await client.apply(config_map(namespace, a="9"), field_manager="one")
    assert less.data == {"a": "9"}, (
        "a field that a manager no longer applies is removed, unless another manager applies it"
    )


async def test_an_apply_that_changes_nothing_leaves_the_version(client: Client, namespace: str) -> None:
    first = await client.apply(config_map(namespace, a="1"))
    again = await client.apply(config_map(namespace, a="1"))
    assert again.metadata.resource_version == first.metadata.resource_version


async def test_a_dry_run_answers_and_stores_nothing(client: Client, namespace: str) -> None:
    answered = await client.create(config_map(namespace, a="1"), dry_run=True)
    assert answered.metadata.uid
    with pytest.raises(NotFound):
        await client.get(ConfigMap, "a", namespace=namespace)


async def test_a_list_is_complete_with_any_page_size(client: Client, namespace: str) -> None:
    for name in "abcdefg":
        await client.create(config_map(namespace, name))
    listed = await client.list(ConfigMap, namespace=namespace, page_size=3, fields="metadata.name!=kube-root-ca.crt")
    assert [each.metadata.name for each in listed] == list("abcdefg")
    page = await client.list_page(ConfigMap, limit=2, namespace=namespace)
    rest = await client.list_page(ConfigMap, limit=500, continue_token=page.continue_token, namespace=namespace)
    assert page.resource_version == rest.resource_version, "all pages are of one snapshot"
    assert {each.metadata.name for each in (*page, *rest)} >= set("abcdefg")


async def test_lists_select_by_labels_and_fields(client: Client, namespace: str) -> None:
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        labelled = ObjectMeta(name=name, namespace=namespace, labels={"app": app})
        await client.create(ConfigMap(metadata=labelled))

    async def names(**query: object) -> list[str]:
        return [each.metadata.name for each in await client.list(ConfigMap, namespace=namespace, **query)]  # type: ignore[arg-type]

    assert await names(labels={"app": "web"}) == ["a", "b"]
    assert await names(labels="app in (db)") == ["c"]
    assert await names(fields={"metadata.name": "b"}) == ["b"]
    with pytest.raises(BadRequest, match=r"data\.k"):
        await names(fields="data.k=1")


async def test_a_watch_continues_from_a_list(client: Client, namespace: str) -> None:
    listed = await client.list(ConfigMap, namespace=namespace)
    obj = await client.create(config_map(namespace, k="1"))
    obj = await client.patch(obj, MergePatch({"data": {"k": "2"}}))
    await client.delete(obj)
    seen: list[tuple[str, str | None]] = []
    watch = client.watch(ConfigMap, namespace=namespace, resource_version=listed.resource_version, timeout=30)
    async with aclosing(watch) as events:
        async for event in events:
            if event.object.metadata.name == "a":
                seen.append((event.type, event.object.data.get("k")))
            if event.type == "DELETED":
                break
    assert seen == [("ADDED", "1"), ("MODIFIED", "2"), ("DELETED", "2")]


async def test_a_streamed_list_ends_with_a_bookmark(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace))
    names: list[str] = []
    watch = client.watch(ConfigMap, namespace=namespace, send_initial_events=True, bookmarks=True, timeout=30)
    async with aclosing(watch) as events:
        async for event in events:
            if isinstance(event, Bookmark):
                assert event.initial_events_end
                assert int(event.resource_version) > 0
                break
            names.append(event.object.metadata.name)
    assert "a" in names


async def test_a_watch_ends_after_its_timeout(client: Client, namespace: str) -> None:
    async for _ in client.watch(ConfigMap, namespace=namespace, timeout=1):
        pass


async def test_a_delete_of_a_replaced_object_spares_its_replacement(client: Client, namespace: str) -> None:
    old = await client.create(config_map(namespace))
    await client.delete(old)
    new = await client.create(config_map(namespace))
    with pytest.raises(Conflict):
        await client.delete(old)
    assert (await client.get(ConfigMap, "a", namespace=namespace)).metadata.uid == new.metadata.uid


async def test_delete_all_of_deletes_what_matches(client: Client, namespace: str) -> None:
    for name, app in (("a", "web"), ("b", "db")):
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace=namespace, labels={"app": app})))
    await client.delete_all_of(ConfigMap, namespace=namespace, labels={"app": "web"})
    assert [each.metadata.name for each in await client.list(ConfigMap, namespace=namespace, labels="app")] == ["b"]


@pytest.mark.usefixtures("gadgets")
async def test_a_status_is_written_separately(client: Client, namespace: str) -> None:
    metadata = ObjectMeta(name="g", namespace=namespace)
    made = await client.create(Gadget(metadata=metadata, spec=GadgetSpec(size=3), status=GadgetStatus(size=3)))
    assert made.status.size is None, "a create takes no status"
    made.spec.size, made.status.size = 9, 3
    written = await client.update_status(made)
    assert (written.spec.size, written.status.size) == (3, 3)
    written = await client.patch(written, MergePatch({"status": {"size": 4}}), subresource="status")
    assert written.status.size == 4
    applied = await client.apply(
        Gadget(metadata=metadata, status=GadgetStatus(size=5)), subresource="status", field_manager="other"
    )
    assert applied.status.size == 5


@pytest.mark.usefixtures("gadgets")
async def test_a_value_against_the_schema_is_invalid_and_the_error_names_the_field(
    client: Client, namespace: str
) -> None:
    with pytest.raises(Invalid, match=r"spec\.size") as raised:
        await client.create(Gadget(metadata=ObjectMeta(name="g", namespace=namespace), spec=GadgetSpec(size=-1)))
    assert [cause.field for cause in raised.value.causes] == ["spec.size"]
    assert not raised.value.patch_did_not_apply


@pytest.mark.usefixtures("gadgets")
async def test_an_unknown_field_is_rejected_or_reported_as_requested(cluster: Cluster, namespace: str) -> None:
    warnings: list[str] = []
    client = Client(cluster.config, on_warning=warnings.append)
    kind = await RESTMapper(client).kind("client.test/v1", "Gadget")
    bogus = kind(metadata=ObjectMeta(name="g", namespace=namespace), content={"spec": {"bogus": 1}})
    with pytest.raises(BadRequest, match=r'unknown field "spec\.bogus"'):
        await client.create(bogus, field_validation="Strict")
    await client.create(bogus, dry_run=True)
    assert warnings == ['unknown field "spec.bogus"']
    await client.create(bogus, field_validation="Ignore")
    assert len(warnings) == 1
    await client.close()


@pytest.mark.usefixtures("gadgets")
async def test_an_update_by_an_older_class_loses_no_fields(client: Client, namespace: str) -> None:
    class GadgetSpecOfOld(Model):
        size: int = 1

    class GadgetOfOld(CustomResource, group="client.test", version="v1", kind="Gadget"):
        """Gadget as an older program knows it, without `color`."""

        spec: GadgetSpecOfOld = field(default_factory=GadgetSpecOfOld)

    metadata = ObjectMeta(name="g", namespace=namespace)
    await client.create(Gadget(metadata=metadata, spec=GadgetSpec(color="red")))
    old = await client.get(GadgetOfOld, "g", namespace=namespace)
    old.spec.size = 5
    await client.update(old)
    assert (await client.get(Gadget, "g", namespace=namespace)).spec == GadgetSpec(size=5, color="red")


async def test_a_client_is_closed_at_the_end_of_its_block(cluster: Cluster, namespace: str) -> None:
    async with Client(cluster.config) as client:
        await client.create(config_map(namespace))
    with pytest.raises(ConnectionFailed):
        await client.get(ConfigMap, "a", namespace=namespace)


async def test_a_kind_that_is_not_installed_is_reported(client: Client, namespace: str) -> None:
    with pytest.raises(NotFound, match="is its CustomResourceDefinition installed"):
        await client.get(Uninstalled, "x", namespace=namespace)
    with pytest.raises(NotFound, match="is its CustomResourceDefinition installed"):
        await client.get_or_none(Uninstalled, "x", namespace=namespace)
    with pytest.raises(ConfigError, match="is its CustomResourceDefinition installed"):
        await RESTMapper(client).kind("client.test/v1", "Uninstalled")


async def test_objects_can_be_read_watched_patched_and_deleted_as_metadata(client: Client, namespace: str) -> None:
    await client.create(config_map(namespace, secret="x"))
    kind = PartialObjectMetadata.of(ConfigMap)
    obj = await client.get(kind, "a", namespace=namespace)
    obj = await client.patch(obj, MergePatch({"metadata": {"labels": {"seen": "yes"}}}))
    assert obj.metadata.labels == {"seen": "yes"}
    assert [each.metadata.name for each in await client.list(kind, namespace=namespace, labels="seen")] == ["a"]
    async with aclosing(client.watch(kind, namespace=namespace, labels="seen")) as events:
        assert (await anext(events)).object.metadata.uid == obj.metadata.uid
    await client.delete(obj)
    assert not await client.list(ConfigMap, namespace=namespace, labels="seen")


async def test_kinds_are_found_by_name(client: Client, namespace: str) -> None:
    mapper = RESTMapper(client)
    found = await mapper.resource("apps/v1", "Deployment")
    assert (found.api.plural, found.api.namespaced) == ("deployments", True)
    assert {"scale", "status"} <= set(found.api.subresources)
    assert {"list", "watch", "delete"} <= found.verbs
    assert not (await mapper.resource("v1", "Namespace")).api.namespaced
    kind = await mapper.kind("v1", "ConfigMap")
    await client.create(kind(metadata=ObjectMeta(name="a", namespace=namespace), content={"data": {"k": "1"}}))
    read = await client.get(kind, "a", namespace=namespace)
    assert isinstance(read, Unstructured)
    assert read["data"] == {"k": "1"}


async def test_an_object_is_waited_for(client: Client, namespace: str) -> None:
    obj = await client.create(config_map(namespace))
    await client.patch(obj, MergePatch({"data": {"k": "1"}}))
    ready = await client.wait_for(ConfigMap, "a", lambda each: each.data.get("k") == "1", namespace=namespace)
    await client.delete(ready)
    await client.wait_until_gone(ConfigMap, "a", namespace=namespace)


async def test_a_finalizer_holds_an_object_until_it_is_removed(client: Client, namespace: str) -> None:
    metadata = ObjectMeta(name="a", namespace=namespace, finalizers=["client.test/hold"])
    obj = await client.create(ConfigMap(metadata=metadata))
    await client.delete(obj)
    held = await client.get(ConfigMap, "a", namespace=namespace)
    assert held.metadata.deletion_timestamp is not None
    await client.patch(held, MergePatch({"metadata": {"finalizers": None}}))

    async def gone() -> None:
        with pytest.raises(NotFound):
            await client.get(ConfigMap, "a", namespace=namespace)

    await eventually(gone)


async def test_applied_fields_are_extracted_changed_and_applied_again(client: Client, namespace: str) -> None:
    web = Container(
        name="web", image="nginx:1", ports=[ContainerPort(container_port=80), ContainerPort(container_port=81)]
    )
    mine = Deployment(
        metadata=ObjectMeta(name="d", namespace=namespace, labels={"app": "d"}, finalizers=["client.test/a"]),
        spec=DeploymentSpec(
            replicas=0,
            selector=LabelSelector(match_labels={"app": "d"}),
            template=PodTemplateSpec(
                metadata=ObjectMeta(labels={"app": "d"}), spec=PodSpec(containers=[web], node_selector={"a": "b"})
            ),
        ),
    )
    await client.apply(mine, field_manager="one")
    sidecar = {"spec": {"template": {"spec": {"containers": [{"name": "side", "image": "side:1"}]}}}}
    read = await client.patch(mine, StrategicPatch({"metadata": {"labels": {"other": "x"}}, **sidecar}))
    part = extract(read, "one")
    for port in mine.spec.template.spec.containers[0].ports:
        port.protocol = "TCP"  # a key of the list
    assert codec.to_dict(part) == codec.to_dict(mine)
    part.spec.min_ready_seconds = 7
    applied = await client.apply(part, field_manager="one")
    assert applied.spec.min_ready_seconds == 7
    assert applied.metadata.labels == {"app": "d", "other": "x"}
    assert {each.name for each in applied.spec.template.spec.containers} == {"web", "side"}
    await client.patch(applied, MergePatch({"metadata": {"finalizers": None}}))


@pytest.mark.usefixtures("gadgets")
async def test_applied_fields_of_a_status_are_extracted(client: Client, namespace: str) -> None:
    metadata = ObjectMeta(name="g", namespace=namespace)
    await client.apply(Gadget(metadata=metadata, spec=GadgetSpec(size=3, color="red")))
    status = Gadget(metadata=metadata, status=GadgetStatus(size=3))
    read = await client.apply(status, subresource="status")
    part = extract(read, client.field_manager, subresource="status")
    assert (part.spec.color, part.status.size) == (None, 3)
    assert extract(read, client.field_manager).spec.color == "red"
    nothing = extract(read, "nobody")
    assert (nothing.metadata, nothing.spec) == (metadata, GadgetSpec())


async def test_extracting_fields_unknown_to_the_class_raises_an_error_with_advice(
    client: Client, namespace: str
) -> None:
    mapper = RESTMapper(client)
    kind = await mapper.kind("apps/v1", "Deployment")
    labels = {"matchLabels": {"a": "b"}}
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = ObjectMeta(name="d", namespace=namespace)
    made = kind(metadata=metadata, content={"spec": {"selector": labels, "template": template, "replicas": 0}})
    await client.create(made)
    await client.apply(kind(metadata=metadata, content={"spec": {"replicas": 0}}), field_manager="scaler")
    with pytest.raises(DecodeError, match=r"selector.*'scaler' does not own it.*Unstructured"):
        extract(await client.get(Deployment, "d", namespace=namespace), "scaler")
    part = extract(await client.get(kind, "d", namespace=namespace), "scaler")
    assert part.content == {"spec": {"replicas": 0}}
    with pytest.raises(ConfigError, match=r"no metadata\.managedFields"):
        extract(part, "scaler")
