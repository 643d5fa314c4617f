"""Creating, updating, patching and deleting."""

from __future__ import annotations

import pytest

from kubewright.machinery.errors import Conflict
from kubewright.testing import VirtualClock
from unit.apiserver.harness import API, CONFIG_MAPS, MERGE


async def test_a_write_that_changes_nothing_is_not_committed(api: API) -> None:
    made = await api.config_map("a", k="v")
    before = api.server.resources.store.revision
    again = await api.ok("PUT", f"{CONFIG_MAPS}/a", made)
    assert again == made
    assert await api.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "v"}}, content_type=MERGE) == made
    assert api.server.resources.store.revision == before


async def test_a_dry_run_answers_like_a_write_and_changes_nothing(api: API) -> None:
    before = api.server.resources.store.revision
    made = await api.ok("POST", f"{CONFIG_MAPS}?dryRun=All", {"metadata": {"generateName": "a-"}})
    assert made["metadata"]["name"].startswith("a-")
    assert "resourceVersion" not in made["metadata"]
    assert api.server.resources.store.revision == before
    await api.config_map("a", k="v")
    changed = await api.ok("PATCH", f"{CONFIG_MAPS}/a?dryRun=All", {"data": {"k": "w"}}, content_type=MERGE)
    assert changed["data"] == {"k": "w"}
    await api.ok("DELETE", f"{CONFIG_MAPS}/a?dryRun=All")
    assert (await api.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "v"}


async def test_the_second_of_two_writes_to_one_version_gets_a_conflict(api: API) -> None:
    made = await api.config_map("a")
    first, second = made | {"data": {"k": "1"}}, made | {"data": {"k": "2"}}
    await api.ok("PUT", f"{CONFIG_MAPS}/a", first)
    status = await api.rejected(409, "PUT", f"{CONFIG_MAPS}/a", second)
    assert status["reason"] == "Conflict"
    assert (await api.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "1"}


async def test_clients_cannot_change_metadata_that_the_server_assigns(api: API) -> None:
    made = await api.config_map("a")
    owned = {"creationTimestamp": "2001-01-01T00:00:00Z", "generation": 7}
    changed = await api.ok("PUT", f"{CONFIG_MAPS}/a", {"metadata": {"name": "a", **owned}, "data": {"k": "v"}})
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert "generation" not in changed["metadata"]
    deleted = {"metadata": {"name": "a", "deletionTimestamp": "2001-01-01T00:00:00Z"}}
    message = 'metadata.deletionTimestamp: Invalid value: "2001-01-01T00:00:00Z": field is immutable'
    assert message in (await api.rejected(422, "PUT", f"{CONFIG_MAPS}/a", deleted))["message"]


async def test_a_finalizer_keeps_an_object_until_it_is_removed(api: API, clock: VirtualClock) -> None:
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    watch = await api.watch(f"{CONFIG_MAPS}?watch=true")
    await watch.next()
    going = await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert going["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    assert going["metadata"]["deletionGracePeriodSeconds"] == 0
    await clock.advance(60)
    again = await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    assert again == going
    last = await api.ok("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert last["metadata"]["resourceVersion"] == going["metadata"]["resourceVersion"]
    await api.rejected(404, "GET", f"{CONFIG_MAPS}/a")
    assert await watch.names(2) == [("MODIFIED", "a"), ("DELETED", "a")]


async def test_no_finalizer_can_be_added_during_deletion(api: API) -> None:
    await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a", "finalizers": ["example.com/f"]}})
    await api.ok("DELETE", f"{CONFIG_MAPS}/a")
    patch = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
    status = await api.rejected(422, "PATCH", f"{CONFIG_MAPS}/a", patch, content_type=MERGE)
    assert "no new finalizers can be added" in status["message"]


@pytest.mark.parametrize(("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_a_propagation_policy_sets_the_garbage_collectors_finalizer(
    api: API, propagation: str, finalizer: str
) -> None:
    await api.config_map("a")
    going = await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": propagation})
    assert going["metadata"]["finalizers"] == [finalizer]
    await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"propagationPolicy": "Background"})
    await api.rejected(404, "GET", f"{CONFIG_MAPS}/a")


async def test_delete_preconditions_are_checked(api: API) -> None:
    made = await api.config_map("a")
    for precondition in ({"uid": "other"}, {"resourceVersion": "1"}):
        await api.rejected(409, "DELETE", f"{CONFIG_MAPS}/a", {"preconditions": precondition})
    metadata = made["metadata"]
    right = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await api.ok("DELETE", f"{CONFIG_MAPS}/a", {"preconditions": right})


async def test_deleting_a_collection_by_selector_answers_with_the_deleted_objects(api: API) -> None:
    for name, app in (("a", "web"), ("b", "web"), ("c", "db")):
        await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": name, "labels": {"app": app}}})
    deleted = await api.ok("DELETE", f"{CONFIG_MAPS}?labelSelector=app%3Dweb")
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["a", "b"]
    left = await api.ok("GET", CONFIG_MAPS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["c"]


async def test_status_is_written_only_through_its_subresource(api: API) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.ok("POST", path, {"metadata": {"name": "d"}, "spec": spec, "status": {"replicas": 9}})
    patch = {"spec": {"replicas": 3}, "status": {"replicas": 2}}
    changed = await api.ok("PATCH", f"{path}/d", patch, content_type=MERGE)
    assert (changed["spec"]["replicas"], changed["status"], changed["metadata"]["generation"]) == (3, {}, 2)
    reported = await api.ok("PATCH", f"{path}/d/status", {"spec": {"replicas": 7}, **patch}, content_type=MERGE)
    assert (reported["spec"]["replicas"], reported["metadata"]["generation"]) == (3, 2)
    assert reported["status"]["replicas"] == 2


async def test_scale_shows_and_sets_replicas_with_its_own_conflicts(api: API) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 1, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    await api.ok("POST", path, {"metadata": {"name": "d"}, "spec": spec})
    scale = await api.ok("GET", f"{path}/d/scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == (
        "Scale",
        {"replicas": 1},
        {"replicas": 0, "selector": "a=b"},
    )
    scaled = await api.ok("PUT", f"{path}/d/scale", scale | {"spec": {"replicas": 5}})
    assert scaled["spec"] == {"replicas": 5}
    assert (await api.ok("GET", f"{path}/d"))["spec"]["replicas"] == 5
    await api.rejected(409, "PUT", f"{path}/d/scale", scale | {"spec": {"replicas": 6}})
    await api.rejected(422, "PATCH", f"{path}/d/scale", {"spec": {"replicas": -1}}, content_type=MERGE)


async def test_unknown_and_duplicate_fields_are_reported_as_requested(api: API) -> None:
    body = b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"},"bogus":1}'
    warned = await api("POST", f"{CONFIG_MAPS}?dryRun=All", body)
    assert warned.headers["warning"] == '299 - "duplicate field \\"data.k\\"", 299 - "unknown field \\"bogus\\""'
    ignored = await api("POST", f"{CONFIG_MAPS}?dryRun=All&fieldValidation=Ignore", body)
    assert (ignored.status, "warning" in ignored.headers) == (201, False)
    status = await api.rejected(400, "POST", f"{CONFIG_MAPS}?fieldValidation=Strict", body)
    faults = 'strict decoding error: duplicate field "data.k", unknown field "bogus"'
    assert status["message"] == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: {faults}'


async def test_colons_in_values_are_not_duplicate_fields(api: API) -> None:
    response = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"json": '{"a":1,"a":2}'}})
    assert (response.status, "warning" in response.headers) == (201, False)


async def test_a_generated_name_in_use_is_generated_again(api: API, monkeypatch: pytest.MonkeyPatch) -> None:
    suffixes = iter(["taken", "taken", "other"])
    monkeypatch.setattr("kubewright.machinery.names.random.choices", lambda *_, k: list(next(suffixes)))
    names = [
        (await api.ok("POST", CONFIG_MAPS, {"metadata": {"generateName": "a-"}}))["metadata"]["name"] for _ in "12"
    ]
    assert names == ["a-taken", "a-other"]


@pytest.mark.parametrize(("subresources", "generation"), [({}, 2), ({"status": {}}, 1)])
async def test_without_a_status_subresource_status_raises_the_generation(
    api: API, subresources: dict[str, object], generation: int
) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "example.com",
        "scope": "Cluster",
        "names": {"kind": "Foo", "plural": "foos"},
        "versions": [version | {"subresources": subresources}],
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.ok("POST", definitions, {"metadata": {"name": "foos.example.com"}, "spec": spec})
    foos = "/apis/example.com/v1/foos"
    await api.ok("POST", foos, {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}})
    changed = await api.ok("PATCH", f"{foos}/f", {"status": {"ready": True}}, content_type=MERGE)
    assert changed["metadata"]["generation"] == generation


async def test_true_and_one_are_different_values(api: API) -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"kind": "Foo", "plural": "foos"}
    spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await api.ok("POST", definitions, {"metadata": {"name": "foos.example.com"}, "spec": spec})
    foos = "/apis/example.com/v1/foos"
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "f"}, "spec": {"any": True}}
    await api.ok("POST", foos, foo)
    await api.ok("PATCH", f"{foos}/f", {"spec": {"any": 1}}, content_type=MERGE)
    stored = await api("GET", f"{foos}/f")
    assert b'"spec":{"any":1}' in await stored.read()


async def test_a_status_write_does_not_set_managed_fields(api: API) -> None:
    path = "/apis/apps/v1/namespaces/default/deployments"
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": template}
    made = await api.ok("POST", f"{path}?fieldManager=creator", {"metadata": {"name": "d"}, "spec": spec})
    forged = [{**made["metadata"]["managedFields"][0], "manager": "forged"}]
    for sent in ([], [{}], forged):
        patch = {"metadata": {"managedFields": sent}, "status": {"replicas": 1}}
        patched = await api.ok("PATCH", f"{path}/d/status?fieldManager=kubelet", patch, content_type=MERGE)
        assert [each["manager"] for each in patched["metadata"]["managedFields"]] == ["creator", "kubelet"]


async def test_a_second_delete_shortens_the_grace_period_but_never_into_the_past(api: API, clock: VirtualClock) -> None:
    pods = "/api/v1/namespaces/default/pods"
    pod = {"metadata": {"name": "p"}, "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}}
    await api.ok("POST", pods, pod)
    first = await api.ok("DELETE", f"{pods}/p?gracePeriodSeconds=30")
    assert first["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:30Z"
    shorter = await api.ok("DELETE", f"{pods}/p?gracePeriodSeconds=25")
    assert shorter["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:25Z"
    await clock.advance(20)
    late = await api.ok("DELETE", f"{pods}/p?gracePeriodSeconds=5")
    assert late["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:20Z"
    assert late["metadata"]["deletionGracePeriodSeconds"] == 5


async def test_deleting_a_collection_reports_the_warnings_of_its_objects(api: API) -> None:
    jobs = "/apis/batch/v1/namespaces/default/jobs"
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}
    for name in ("a", "b"):
        await api.ok("POST", jobs, {"metadata": {"name": name}, "spec": {"template": {"spec": pod}}})
    deleted = await api("DELETE", jobs)
    assert deleted.status == 200
    assert deleted.headers["warning"].count("child pods are preserved by default") == 1


async def test_a_write_answers_with_the_stored_bytes(api: API) -> None:
    made = await api("POST", CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}})
    changed = await api("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "w"}}, content_type=MERGE)
    entry = api.server.resources.registry("configmaps").entry("a", "default")
    assert changed.body == entry.data + b"\n"
    assert made.body != changed.body


async def test_duplicate_fields_are_found_in_any_spelling(api: API) -> None:
    for body in (
        b'{"metadata":{"name":"a"},"data":{"k":"1","k":"2"}}',
        b'{"metadata" : {"name" : "a"},"data" : {"k" : "1","k" : "2"}}',
        b'{"metadata":{"name":"a","annotations":{"x":"\\u0022:"}},"data":{"k":"1","k":"2"}}',
        b'{"metadata":{"name":"a","annotations":{"x":"\\":"}},"data":{"k":"1","k":"2"}}',
    ):
        answer = await api("POST", f"{CONFIG_MAPS}?dryRun=All", body)
        assert answer.headers["warning"] == '299 - "duplicate field \\"data.k\\""'


async def test_a_write_based_on_an_outdated_read_is_a_conflict(api: API) -> None:
    await api.config_map("a", k="1")
    registry = api.server.resources.registry("configmaps")
    target = registry.open("a", "default")
    await api.ok("PATCH", f"{CONFIG_MAPS}/a", {"data": {"k": "2"}}, content_type=MERGE)
    with pytest.raises(Conflict):
        registry.replace(target, {**target.draft(), "data": {"k": "3"}})
    assert (await api.ok("GET", f"{CONFIG_MAPS}/a"))["data"] == {"k": "2"}


@pytest.mark.parametrize("owners", ["text", ["a", "a"], [1, None], [{"uid": "a"}, [], "b"]])
async def test_malformed_owners_are_refused(api: API, owners: object) -> None:
    await api.config_map("a")
    for method, path in (("POST", CONFIG_MAPS), ("PUT", f"{CONFIG_MAPS}/a")):
        document = {"metadata": {"name": "a", "ownerReferences": owners}}
        await api.rejected(400, method, path, document)


async def test_many_owners_with_one_uid_are_compared_once(api: API) -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "uid": "u"}
    owners = [{**owner, "name": f"o{number % 3_000}"} for number in range(6_000)]
    made = await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "a", "ownerReferences": owners}})
    assert len(made["metadata"]["ownerReferences"]) == 3_000
