"""Faults of built-in kinds, each in one field of an object that is valid otherwise."""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance.rawapi import API

CONTAINER: Final = {"name": "c", "image": "i"}
TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
NOT_A_LABEL: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
NO_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
DISTRIBUTIONS: Final = '"PreferClose", "PreferSameZone", "PreferSameNode"'
CASES: Final[list[tuple[str, dict[str, Any], list[str]]]] = [
    ("configmaps", {"metadata": {"generateName": "-a"}}, ["metadata.generateName: Invalid value", "metadata.name: "]),
    (
        "services",
        {"spec": {"ports": [{"port": 80}], "trafficDistribution": "Far"}},
        [f'spec.trafficDistribution: Unsupported value: "Far": supported values: {DISTRIBUTIONS}'],
    ),
    (
        "services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerSourceRanges": ["10.0.0.0/33"]}},
        [f'spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.0/33": {NO_CIDR}'],
    ),
    (
        "services",
        {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}], "loadBalancerClass": "/x"}},
        ['spec.loadBalancerClass: Invalid value: "/x": prefix part must be non-empty'],
    ),
    (
        "endpoints",
        {"subsets": [{"addresses": [{"ip": "10.0.0.1", "hostname": "A"}], "ports": [{"port": 1}]}]},
        [f'subsets[0].addresses[0].hostname: Invalid value: "A": {NOT_A_LABEL}'],
    ),
    (
        "discovery.k8s.io/v1/endpointslices",
        {
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"], "hints": {"forZones": [{"name": "z"}, {"name": "z"}]}}],
            "ports": [{"port": 1, "appProtocol": "/x"}],
        },
        [
            'ports[0].appProtocol: Invalid value: "/x": prefix part must be non-empty',
            'endpoints[0].hints.forZones[1].name: Duplicate value: "z"',
        ],
    ),
    (
        "apps/v1/statefulsets",
        {
            "spec": {
                "selector": {"matchLabels": {"a": "b"}},
                "template": TEMPLATE,
                "ordinals": {"start": -1},
                "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Drop"},
            }
        },
        [
            'spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: "Drop": '
            'supported values: "Retain", "Delete"',
            "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
        ],
    ),
]


async def expect_faults(api: API, ns: str, resource: str, body: dict[str, Any], faults: list[str]) -> None:
    version, _, plural = resource.rpartition("/")
    path = ns.replace("/api/v1", f"/apis/{version}") if version else ns
    given: dict[str, Any] = {"metadata": {"name": "a"}, **body}
    answer = (await api.post(f"{path}/{plural}?dryRun=All", given)).expect(422)
    found = [f"{field}: {message}" for _, field, message in answer.causes]
    assert len(found) == len(faults), found
    assert all(one.startswith(wanted) for one, wanted in zip(found, faults, strict=True)), found


@pytest.mark.parametrize(("resource", "body", "faults"), CASES)
async def test_a_fault_of_one_field_is_reported(
    api: API, ns: str, resource: str, body: dict[str, Any], faults: list[str]
) -> None:
    await expect_faults(api, ns, resource, body, faults)


async def test_an_object_without_metadata_needs_a_name(api: API, ns: str) -> None:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
    faults = ["metadata.name: Required value: name or generateName is required"]
    await expect_faults(api, ns, "apps/v1/daemonsets", {"metadata": None, "spec": spec}, faults)


WARNED: Final[list[tuple[str, dict[str, Any], list[str]]]] = [
    (
        "pods",
        {
            "nodeSelector": {"beta.kubernetes.io/os": "linux"},
            "imagePullSecrets": [{"name": "s"}, {"name": "s"}],
            "volumes": [{"name": "v", "cephfs": {"monitors": ["m"]}}],
            "affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
        },
        [
            'spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use "kubernetes.io/os" instead',
            "spec.volumes[0].cephfs: deprecated in v1.28, non-functional in v1.31+",
            'spec.imagePullSecrets[1].name: duplicate name "s"',
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].labelSelector: "
            "a null labelSelector results in matching no pod",
        ],
    ),
    (
        "pods",
        {
            "containers": [
                {
                    **CONTAINER,
                    "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}, {"name": "A", "value": "$(A)3"}],
                    "ports": [{"containerPort": 80, "name": "web", "hostIP": "10.0.0.1"}],
                    "resources": {"requests": {"memory": "100m"}},
                },
                {"name": "d", "image": "i", "ports": [{"containerPort": 80, "name": "web"}]},
            ]
        },
        [
            'spec.containers[0].resources.requests[memory]: fractional byte value "100m" is invalid, '
            "must be an integer",
            'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
            "spec.containers[0].ports[0]: hostIP set without hostPort: "
            "{Name:web HostPort:0 ContainerPort:80 Protocol:TCP HostIP:10.0.0.1}",
            "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
            'spec.containers[1].ports[0]: duplicate port name "web" with spec.containers[0].ports[0], '
            "services and probes that select ports by name will use spec.containers[0].ports[0]",
        ],
    ),
    (
        "pods",
        {
            "volumes": [
                {
                    "name": "v",
                    "configMap": {"name": "c", "items": [{"key": "k", "path": each} for each in ("a", "a/b")]},
                },
                {
                    "name": "w",
                    "projected": {
                        "sources": [
                            {},
                            {"secret": {"name": "s", "items": [{"key": "k", "path": "token"}]}},
                            {"serviceAccountToken": {"path": "token/"}},
                        ]
                    },
                },
            ]
        },
        [
            'volume "v" (ConfigMap "c"): overlapping paths: "a/b" with "a"',
            'volume "w" (Projected) has no sources provided',
            'volume "w" (Projected): overlapping paths: "token" (ServiceAccountToken) with "token" (Secret "s")',
        ],
    ),
    (
        "services",
        {
            "clusterIP": "None",
            "ports": [{"port": 1}],
            "externalIPs": ["10.0.0.1"],
            "trafficDistribution": "PreferClose",
        },
        [
            "spec.externalIPs is ignored for headless services",
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
        ],
    ),
]


def warnings_of(headers: dict[str, str]) -> list[str]:
    texts = headers.get("warning", "").removeprefix('299 - "').removesuffix('"').split('", 299 - "')
    return [each.replace('\\"', '"') for each in texts if each]


@pytest.mark.parametrize(("plural", "spec", "warnings"), WARNED)
async def test_what_is_accepted_but_not_meant_is_warned_of(
    api: API, ns: str, plural: str, spec: dict[str, Any], warnings: list[str]
) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [CONTAINER], **spec}}
    if plural == "services":
        del body["spec"]["containers"]
    made = (await api.post(f"{ns}/{plural}?dryRun=All", body)).expect(201)
    assert sorted(warnings_of(made.headers)) == sorted(warnings)


async def test_a_template_is_warned_of_when_it_is_new_or_changed(api: API, ns: str) -> None:
    pod = {**TEMPLATE["spec"], "nodeSelector": {"beta.kubernetes.io/os": "linux"}}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "template": {**TEMPLATE, "spec": pod}}
    path = ns.replace("/api/v1", "/apis/apps/v1") + "/deployments"
    why = 'deprecated since v1.14; use "kubernetes.io/os" instead'
    warning = f"spec.template.spec.nodeSelector[beta.kubernetes.io/os]: {why}"
    made = (await api.post(path, {"metadata": {"name": "a.b"}, "spec": spec})).expect(201)
    name, selector = warnings_of(made.headers)
    assert name.endswith("a DNS label is recommended: [must not contain dots]")
    assert selector == warning
    labeled = (await api.patch(f"{path}/a.b", {"metadata": {"labels": {"a": "b"}}})).expect(200)
    assert warnings_of(labeled.headers) == []
    scaled = (await api.patch(f"{path}/a.b", {"spec": {"replicas": 0}})).expect(200)
    assert warnings_of(scaled.headers) == [warning]
