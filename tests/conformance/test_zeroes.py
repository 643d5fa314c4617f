"""Zero and absent: equal where Go holds a value, different where it holds a pointer."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API


def pod(container: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "nginx"} | container], **spec}}


async def test_explicit_zeros_of_fields_with_a_default_get_the_default(api: API, ns: str) -> None:
    probe = {"tcpSocket": {"port": 80}, "timeoutSeconds": 0, "periodSeconds": 0, "initialDelaySeconds": 0}
    ports = [{"containerPort": 80, "protocol": "", "hostPort": 0, "hostIP": "", "name": ""}]
    container = {"livenessProbe": probe, "ports": ports, "imagePullPolicy": "", "terminationMessagePath": ""}
    sent = pod(container, restartPolicy="", dnsPolicy="", schedulerName="", serviceAccountName="")
    made = (await api.post(f"{ns}/pods", sent)).expect(201).json["spec"]
    assert (made["restartPolicy"], made["dnsPolicy"], made["serviceAccountName"]) == (
        "Always",
        "ClusterFirst",
        "default",
    )
    [container] = made["containers"]
    assert container["livenessProbe"] == {
        "tcpSocket": {"port": 80},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}]
    assert (container["imagePullPolicy"], container["terminationMessagePath"]) == ("Always", "/dev/termination-log")


async def test_explicit_zeros_of_fields_without_a_default_are_omitted(api: API, ns: str) -> None:
    sent = pod({"env": [{"name": "A", "value": ""}], "stdin": False, "workingDir": ""}, hostNetwork=False, hostname="")
    made = (await api.post(f"{ns}/pods", sent)).expect(201).json["spec"]
    assert made["containers"][0]["env"] == [{"name": "A"}]
    assert not {"stdin", "workingDir"} & made["containers"][0].keys()
    assert not {"hostNetwork", "hostname"} & made.keys()


async def test_zeros_that_differ_from_absent_values_are_kept(api: API, ns: str) -> None:
    sent = pod({}, terminationGracePeriodSeconds=0, automountServiceAccountToken=False, enableServiceLinks=False)
    made = (await api.post(f"{ns}/pods", sent)).expect(201).json["spec"]
    assert made["terminationGracePeriodSeconds"] == 0
    assert made["automountServiceAccountToken"] is False
    assert made["enableServiceLinks"] is False


@pytest.mark.parametrize("number", [0, ""])
async def test_the_target_port_defaults_to_the_port(api: API, ns: str, number: int | str) -> None:
    port = {"port": 80, "targetPort": number, "protocol": "", "nodePort": 0, "name": ""}
    sent = {"metadata": {"name": "s"}, "spec": {"ports": [port], "type": "", "sessionAffinity": "", "clusterIP": ""}}
    made = (await api.post(f"{ns}/services", sent)).expect(201).json["spec"]
    assert made["ports"] == [{"protocol": "TCP", "port": 80, "targetPort": 80}]
    assert (made["type"], made["sessionAffinity"]) == ("ClusterIP", "None")


async def test_some_zeros_are_written_if_absent(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/apps/v1")
    labels = {"app": "x"}
    spec = {
        "replicas": 0,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "nginx"}]}},
    }
    made = (await api.post(f"{path}/replicasets", {"metadata": {"name": "r"}, "spec": spec})).expect(201).json
    assert made["status"] == {"replicas": 0}
    assert "minReadySeconds" not in made["spec"]


async def test_a_rule_without_groups_is_for_the_core_group(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/rbac.authorization.k8s.io/v1")
    reference = {"apiGroup": "", "kind": "Role", "name": "r"}
    subject = {"kind": "ServiceAccount", "apiGroup": "", "name": "a", "namespace": ns.rpartition("/")[2]}
    body = {"metadata": {"name": "b"}, "roleRef": reference, "subjects": [subject]}
    made = (await api.post(f"{path}/rolebindings", body)).expect(201).json
    assert made["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
    assert made["subjects"] == [{key: value for key, value in subject.items() if key != "apiGroup"}]


async def test_empty_metadata_values_are_omitted(api: API, ns: str) -> None:
    metadata = {"name": "c", "generateName": "", "uid": "", "resourceVersion": "", "generation": 0, "namespace": ""}
    made = (await api.post(f"{ns}/configmaps", {"metadata": metadata})).expect(201).json["metadata"]
    assert not {"generateName", "generation", "selfLink"} & made.keys()


async def test_omitted_zeros_have_no_owner(api: API, ns: str) -> None:
    sent = pod({"stdin": False}, hostNetwork=False, schedulerName="")
    made = (await api.post(f"{ns}/pods?fieldManager=me", sent)).expect(201).json
    fields = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert "f:hostNetwork" not in fields
    assert "f:schedulerName" in fields, "as with all defaults"
    assert "f:stdin" not in fields["f:containers"]['k:{"name":"c"}']


async def test_an_applied_zero_is_owned(api: API, ns: str) -> None:
    body = {"apiVersion": "v1", "kind": "Pod", **pod({"stdin": False}, hostNetwork=False, nodeSelector={})}
    made = (await api.patch(f"{ns}/pods/p?fieldManager=me", body, "apply")).expect(201).json
    fields = made["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]
    assert {"f:hostNetwork", "f:nodeSelector"} <= fields.keys()
    assert "f:stdin" in fields["f:containers"]['k:{"name":"c"}']
    assert "hostNetwork" not in made["spec"]


async def test_applying_the_same_zero_again_changes_nothing(api: API, ns: str) -> None:
    body = template({"metadata": {"labels": {}}, "spec": {"hostNetwork": False}})
    made = (await api.patch(f"{ns}/podtemplates/p?fieldManager=me", body, "apply")).expect(201).json
    again = (await api.patch(f"{ns}/podtemplates/p?fieldManager=me", body, "apply")).expect(200).json
    assert again == made


async def test_an_applied_zero_conflicts_with_the_value_of_another_manager(api: API, ns: str) -> None:
    path = f"{ns}/podtemplates/p"
    await api.patch(f"{path}?fieldManager=one", template({"spec": {"hostNetwork": True}}), "apply")
    answer = await api.patch(f"{path}?fieldManager=two", template({"spec": {"hostNetwork": False}}), "apply")
    assert answer.expect(409).causes[0][1] == ".template.spec.hostNetwork"
    forced = await api.patch(f"{path}?fieldManager=two&force=true", template({"spec": {"hostNetwork": False}}), "apply")
    assert "hostNetwork" not in forced.expect(200).json["template"]["spec"]


async def test_applying_empty_labels_keeps_labels_of_other_managers(api: API, ns: str) -> None:
    path = f"{ns}/podtemplates/p"
    await api.patch(f"{path}?fieldManager=one", template({"metadata": {"labels": {"a": "b"}}}), "apply")
    both = await api.patch(f"{path}?fieldManager=two", template({"metadata": {"labels": {}}}), "apply")
    assert both.expect(200).json["template"]["metadata"]["labels"] == {"a": "b"}


def template(of_pods: dict[str, Any]) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "nginx"}], **of_pods.get("spec", {})}
    metadata = {"name": "p"}
    return {"apiVersion": "v1", "kind": "PodTemplate", "metadata": metadata, "template": {**of_pods, "spec": spec}}
