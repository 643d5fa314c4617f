"""The behavior of Foo, as users see it."""

import pytest
from kubewright.client import MergePatch
from kubewright.testing import eventually, gone

from foos import Foos, condition_of, is_controlled_by

pytestmark = pytest.mark.usefixtures("controller")


async def test_a_foo_gets_its_deployment(foos: Foos) -> None:
    foo = await foos.create(deployment="web", replicas=2)
    await foos.synced()
    deployment = await foos.deployment("web")
    assert is_controlled_by(deployment, foo)
    labels = {"app": "nginx", "controller": "foo"}
    assert deployment.spec.selector.match_labels == labels
    assert deployment.spec.template.metadata.labels == labels
    [container] = deployment.spec.template.spec.containers
    assert (container.name, container.image) == ("nginx", "nginx:latest")


async def test_a_synced_foo_records_one_event(foos: Foos) -> None:
    await foos.create()
    await foos.synced()

    async def recorded() -> None:
        event = await foos.event("Synced")
        assert event.type == "Normal"
        assert event.note == 'Foo synced successfully: Deployment "web" matches the spec'
        assert event.reporting_controller == "sample-controller"

    await eventually(recorded)


async def test_the_deployment_is_scaled(foos: Foos) -> None:
    await foos.create(replicas=1)
    await foos.synced(replicas=1)
    await foos.change(replicas=3)
    await foos.synced(replicas=3)


async def test_unset_replicas_are_left_to_other_clients(foos: Foos) -> None:
    await foos.create(replicas=None)
    await foos.synced(replicas=1)
    await foos.client.patch(await foos.deployment(), MergePatch({"spec": {"replicas": 3}}))
    await foos.synced(replicas=3)


async def test_a_renamed_deployment_replaces_the_old_one(foos: Foos) -> None:
    await foos.create(deployment="first")
    await foos.synced()
    await foos.change(deploymentName="second")
    await foos.synced()
    await gone(foos.deployment, "first")


async def test_the_deployment_is_deleted_with_the_foo(foos: Foos) -> None:
    await foos.create()
    await foos.synced()
    await foos.delete()
    await gone(foos.deployment)


async def test_a_deleted_deployment_is_recreated(foos: Foos) -> None:
    await foos.create()
    await foos.synced()
    lost = await foos.deployment()
    await foos.client.delete(lost)

    async def is_recreated() -> None:
        assert (await foos.deployment()).metadata.uid != lost.metadata.uid

    await eventually(is_recreated)
    await foos.synced()


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"replicas": 5}, id="replicas"),
        pytest.param({"template": {"spec": {"containers": [{"name": "nginx", "image": "busybox"}]}}}, id="image"),
    ],
)
async def test_an_edited_deployment_is_restored(foos: Foos, edit: dict[str, object]) -> None:
    await foos.create()
    await foos.synced()
    before = await foos.deployment()
    await foos.client.patch(before, MergePatch({"spec": edit}))
    await foos.synced()
    assert (await foos.deployment()).metadata.uid == before.metadata.uid


async def test_fields_of_other_clients_are_kept(foos: Foos) -> None:
    await foos.create()
    await foos.synced()
    note = {"template": {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}}}}
    await foos.client.patch(await foos.deployment(), MergePatch({"spec": {**note, "replicas": 4}}))
    await foos.synced()
    annotations = (await foos.deployment()).spec.template.metadata.annotations
    assert annotations == {"kubectl.kubernetes.io/restartedAt": "2026-01-01T00:00:00Z"}


async def test_a_foreign_deployment_is_left_alone_and_reported(foos: Foos) -> None:
    theirs = await foos.create_foreign_deployment()
    await foos.create()
    message = (
        'Deployment "web" already exists and is not managed by Foo "foo"; delete it, or choose another name in '
        "spec.deploymentName"
    )

    async def recorded() -> None:
        synced = condition_of(await foos.get())
        assert (synced.status, synced.reason, synced.message) == ("False", "ErrResourceExists", message)
        event = await foos.event("ErrResourceExists")
        assert (event.type, event.note) == ("Warning", message)

    await eventually(recorded)
    left = await foos.deployment()
    assert (left.metadata.uid, left.metadata.generation) == (theirs.metadata.uid, theirs.metadata.generation)
    assert left.metadata.owner_references == []


async def test_the_second_foo_with_the_same_deployment_name_waits(foos: Foos) -> None:
    await foos.create("first")
    await foos.synced("first")
    await foos.create("second", replicas=1)

    async def waits() -> None:
        assert condition_of(await foos.get("second")).reason == "ErrResourceExists"

    await eventually(waits)
    await foos.delete("first")
    await foos.synced("second", replicas=1)
