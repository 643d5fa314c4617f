"""Faults of kinds whose objects mostly come from administrators: storage, networking, flow control, Nodes, Jobs.

Each case changes one field of a valid object, and names the faults that both servers report.
"""

from __future__ import annotations

import copy
from typing import Any, Final

import pytest

from conformance.rawapi import API

TERMS: Final = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}
CLAIM: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
VALID: Final[dict[str, dict[str, Any]]] = {
    "storage.k8s.io/v1/storageclasses": {"provisioner": "a.b/c", "parameters": {"type": "fast"}},
    "storage.k8s.io/v1/csidrivers": {"spec": {"tokenRequests": [{"audience": "a"}]}},
    "storage.k8s.io/v1/csinodes": {"spec": {"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["zone"]}]}},
    "storage.k8s.io/v1/namespaces/NS/csistoragecapacities": {"storageClassName": "fast"},
    "storage.k8s.io/v1/volumeattachments": {
        "spec": {"attacher": "d", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
    },
    "storage.k8s.io/v1/volumeattributesclasses": {"driverName": "d", "parameters": {"iops": "10"}},
    "v1/persistentvolumes": {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/data"},
            "nodeAffinity": {"required": TERMS},
        }
    },
    "v1/namespaces/NS/persistentvolumeclaims": {"spec": CLAIM},
    "v1/nodes": {"spec": {}},
    "networking.k8s.io/v1/ingressclasses": {
        "spec": {"controller": "a.b/c", "parameters": {"kind": "Settings", "name": "s"}}
    },
    "networking.k8s.io/v1/namespaces/NS/ingresses": {
        "spec": {"defaultBackend": {"service": {"name": "s", "port": {"number": 80}}}}
    },
    "node.k8s.io/v1/runtimeclasses": {"handler": "h"},
    "flowcontrol.apiserver.k8s.io/v1/flowschemas": {
        "spec": {
            "priorityLevelConfiguration": {"name": "p"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": "u"}}],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}],
                }
            ],
        }
    },
    "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations": {
        "spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}
    },
    "resource.k8s.io/v1/namespaces/NS/resourceclaims": {
        "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}
    },
    "resource.k8s.io/v1/deviceclasses": {"spec": {}},
    "resource.k8s.io/v1/resourceslices": {
        "spec": {
            "driver": "a.b",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "nodeName": "n",
            "devices": [{"name": "d"}],
        }
    },
    "v1/namespaces/NS/pods": {
        "spec": {
            "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}],
            "volumes": [{"name": "v", "emptyDir": {}}],
        }
    },
}
MISSING: Final = ": Required value"
FAULTS: Final[list[tuple[str, str, Any, list[str]]]] = [
    ("storageclasses", "provisioner", "a b", ['provisioner: Invalid value: "a b": name part must consist of']),
    (
        "storageclasses",
        "allowedTopologies",
        [{"matchLabelExpressions": [{"key": "k", "values": ["v", "v"]}, {"key": "k"}]}],
        [
            'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "v"',
            f"allowedTopologies[0].matchLabelExpressions[1].values{MISSING}",
            'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "k"',
        ],
    ),
    (
        "csidrivers",
        "spec",
        {"fsGroupPolicy": "Most", "volumeLifecycleModes": ["Short"], "serviceAccountTokenInSecrets": True},
        [
            'spec.fsGroupPolicy: Unsupported value: "Most": supported values: "File", "None", '
            '"ReadWriteOnceWithFSType"',
            'spec.volumeLifecycleModes: Unsupported value: "Short": supported values: "Persistent", "Ephemeral"',
            "spec.serviceAccountTokenInSecrets: Invalid value: true: serviceAccountTokenInSecrets is set but no "
            "tokenRequests are specified",
        ],
    ),
    (
        "csidrivers",
        "spec.tokenRequests",
        [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}],
        [
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than "
            "10 minutes",
            'spec.tokenRequests[1].audience: Duplicate value: "a"',
        ],
    ),
    (
        "csinodes",
        "spec.drivers",
        [{"name": "d", "nodeID": "n", "topologyKeys": ["z", "z"]}, {"name": "d", "allocatable": {"count": -1}}],
        [
            'spec.drivers[0]: Duplicate value: "z"',
            f"spec.drivers[1].nodeID{MISSING}",
            "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            'spec.drivers[1].name: Duplicate value: "d"',
        ],
    ),
    (
        "csistoragecapacities",
        "capacity",
        "-1",
        ['capacity: Invalid value: "-1": must be greater than or equal to 0'],
    ),
    (
        "volumeattachments",
        "spec",
        {},
        [
            f"spec.attacher{MISSING}",
            f"spec.source{MISSING}: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            'spec.nodeName: Invalid value: "": a lowercase RFC 1123 subdomain',
        ],
    ),
    (
        "volumeattributesclasses",
        "parameters",
        {},
        [f"parameters{MISSING}: must contain at least one key/value pair"],
    ),
    (
        "persistentvolumes",
        "spec.nodeAffinity",
        None,
        [f"spec.nodeAffinity{MISSING}: Local volume requires node affinity"],
    ),
    (
        "persistentvolumes",
        "spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0",
        {"key": "zone", "operator": "Near"},
        [
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].operator: "
            'Invalid value: "Near": not a valid selector operator'
        ],
    ),
    (
        "persistentvolumes",
        "spec.local.path",
        "/a/../b",
        ["spec.local.path: Invalid value: \"/a/../b\": must not contain '..'"],
    ),
    (
        "persistentvolumeclaims",
        "spec.dataSourceRef",
        {"kind": "Image", "name": "i"},
        [
            f"spec.{field}: Invalid value: \"Image\": must be 'PersistentVolumeClaim' when referencing the default "
            "apiGroup"
            for field in ("dataSource", "dataSourceRef")
        ],
    ),
    (
        "nodes",
        "spec",
        {"podCIDRs": ["10.1.0.0/24", "10.2.0.0/24"]},
        [
            'spec.podCIDRs: Invalid value: ["10.1.0.0/24","10.2.0.0/24"]: may specify no more than one CIDR for each '
            "IP family"
        ],
    ),
    (
        "nodes",
        "status",
        {"capacity": {"cpu": "-1"}},
        [
            'status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0',
            'status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0',
        ],
    ),
    ("ingressclasses", "spec.controller", "c", ['spec.controller: Invalid value: "c": must be a domain-prefixed path']),
    (
        "ingressclasses",
        "spec.parameters.scope",
        "Namespace",
        [f"spec.parameters.namespace{MISSING}: `parameters.scope` is set to 'Namespace'"],
    ),
    (
        "ingressclasses",
        "spec.parameters.namespace",
        "n",
        ["spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'"],
    ),
    ("ingresses", "spec.defaultBackend", {}, ['spec.defaultBackend: Invalid value: "": resource or service backend']),
    (
        "runtimeclasses",
        "scheduling",
        {"nodeSelector": {"a": "-"}, "tolerations": [{"operator": "Never", "key": "k"}]},
        [
            'scheduling.nodeSelector: Invalid value: "-": a valid label must be',
            'scheduling.tolerations[0].operator: Unsupported value: "Never"',
        ],
    ),
    (
        "flowschemas",
        "spec.rules.0",
        {"subjects": [{"kind": "ServiceAccount", "user": {"name": "u"}}]},
        [
            f"spec.rules[0].subjects[0].serviceAccount{MISSING}: serviceAccount is required when subject kind is "
            "'ServiceAccount'",
            "spec.rules[0].subjects[0].user: Forbidden: user is forbidden when subject kind is not 'User'",
            f"spec.rules[0]{MISSING}: at least one of resourceRules and nonResourceRules has to be non-empty",
        ],
    ),
    (
        "flowschemas",
        "spec.rules.0.nonResourceRules.0",
        {"verbs": ["*", "get"], "nonResourceURLs": ["/a*"]},
        [
            'spec.rules[0].nonResourceRules[0].verbs: Invalid value: ["*","get"]: if \'*\' is present, must not '
            "specify other verbs",
            'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix '
            "matching",
        ],
    ),
    (
        "prioritylevelconfigurations",
        "spec.limited",
        {"lendablePercent": 101, "limitResponse": {"type": "Queue", "queuing": {"queues": 2, "handSize": 3}}},
        [
            "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: should not be greater than queues (2)",
            "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
        ],
    ),
    (
        "resourceclaims",
        "spec.devices",
        {
            "requests": [{"name": "R"}, {"name": "s", "exactly": {"allocationMode": "Most"}}],
            "constraints": [{"requests": ["t"], "matchAttribute": "model"}],
            "config": [{"requests": ["s", "s"], "opaque": {"parameters": [1]}}],
        },
        [
            'spec.devices.requests[0].name: Invalid value: "R": a lowercase RFC 1123 label',
            f"spec.devices.requests[0]{MISSING}: exactly one of `exactly` or `firstAvailable` is required",
            f"spec.devices.requests[1].exactly.deviceClassName{MISSING}",
            'spec.devices.requests[1].exactly.allocationMode: Unsupported value: "Most": supported values: "All", '
            '"ExactCount"',
            'spec.devices.constraints[0].requests[0]: Invalid value: "t": must be the name of a request in the claim',
            'spec.devices.constraints[0].matchAttribute: Invalid value: "model": a fully qualified name must be',
            'spec.devices.config[0].requests[1]: Duplicate value: "s"',
            f"spec.devices.config[0].opaque.driver{MISSING}",
            'spec.devices.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
        ],
    ),
    (
        "deviceclasses",
        "spec",
        {"config": [{}], "extendedResourceName": "gpu"},
        [
            f"spec.config[0].opaque{MISSING}",
            'spec.extendedResourceName: Invalid value: "gpu": must be a valid extended resource name',
        ],
    ),
    (
        "resourceslices",
        "spec",
        {
            "pool": {"generation": -1},
            "allNodes": False,
            "devices": [{"name": "d"}, {"name": "d", "attributes": {"a-b": {}}}],
        },
        [
            f"spec.driver{MISSING}",
            f"spec.pool.name{MISSING}",
            "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
            "spec.pool.generation: Invalid value: -1: must be greater than or equal to zero",
            "spec.allNodes: Invalid value: false: must be either unset or set to true",
            f"spec{MISSING}: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is",
            'spec.devices[1].attributes: Invalid value: "a-b": a valid C identifier must',
            'spec.devices[1].attributes[a-b]: Invalid value: "": exactly one value must be specified',
            'spec.devices[1]: Duplicate value: "d"',
        ],
    ),
    (
        "pods",
        "spec.containers.0.volumeMounts.0.mountPropagation",
        "Bidirectional",
        [
            "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available "
            "only to privileged containers"
        ],
    ),
    (
        "pods",
        "spec.containers.0.volumeMounts.0.recursiveReadOnly",
        "Enabled",
        ["spec.containers[0].volumeMounts.recursiveReadOnly: Forbidden: may only be specified when readOnly is true"],
    ),
    (
        "pods",
        "spec.containers.0.resizePolicy",
        [{"resourceName": "disk", "restartPolicy": "NotRequired"}],
        ['spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"'],
    ),
    (
        "pods",
        "spec.containers.0.securityContext",
        {"procMount": "Unmasked", "appArmorProfile": {"type": "Localhost"}},
        [
            'spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use '
            "`Unmasked`",
            f"spec.containers[0].securityContext.appArmorProfile.localhostProfile{MISSING}: must be set when AppArmor",
        ],
    ),
    (
        "pods",
        "spec.containers.0.env",
        [{"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "2"}}}],
        [
            'spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only '
            "divisor's values 1m and 1 are supported with the cpu resource"
        ],
    ),
    (
        "pods",
        "spec.affinity",
        {
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "preference": {}}]},
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "k", "matchLabelKeys": ["a"]}]
            },
        },
        [
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: "
            "must be in the range 1-100",
            "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: "
            "must not be specified when labelSelector is not set",
        ],
    ),
    (
        "pods",
        "spec.topologySpreadConstraints",
        [{"maxSkew": 1, "topologyKey": "k", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1}] * 2,
        [
            "spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "
            '"{k, ScheduleAnyway}"',
            "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
            "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            "spec.topologySpreadConstraints[1].minDomains: Invalid value: 1: can only use minDomains",
        ],
    ),
    (
        "pods",
        "spec.dnsConfig",
        {"nameservers": ["here"], "searches": ["A"], "options": [{}]},
        [
            'spec.dnsConfig.nameservers[0]: Invalid value: "here": must be a valid IP address',
            'spec.dnsConfig.searches[0]: Invalid value: "A": a lowercase RFC 1123 subdomain',
            f"spec.dnsConfig.options[0]{MISSING}: must not be empty",
        ],
    ),
    ("pods", "spec.os", {"name": "dos"}, ['spec.os: Unsupported value: "dos": supported values: "linux", "windows"']),
    (
        "pods",
        "spec.volumes.0",
        {
            "name": "v",
            "projected": {
                "sources": [
                    {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
                    {"configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
                ]
            },
        },
        [
            'spec.volumes[0].projected: Invalid value: "c": conflicting duplicate paths',
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
    (
        "pods",
        "spec.volumes.0",
        {"name": "v", "ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "n"}, "spec": CLAIM}}},
        [
            "spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
    (
        "pods",
        "spec.volumes.0",
        {"name": "v", "iscsi": {"targetPortal": "10.0.0.1", "iqn": "iqn.none", "lun": 256}},
        [
            'spec.volumes[0].iscsi.iqn: Invalid value: "iqn.none": must be valid format',
            "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive",
            'spec.containers[0].volumeMounts[0].name: Not found: "v"',
        ],
    ),
]
PATHS: Final = {resource.rpartition("/")[2]: resource for resource in VALID}


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """Return a copy of `body` with another value at a path such as `spec.rules.0.verbs`."""
    whole = copy.deepcopy({"metadata": {"name": "a"}, **body})
    *parents, last = [int(each) if each.isdecimal() else each for each in path.split(".")]
    target: Any = whole
    for each in parents:
        target = target[each]
    target[last] = value
    return whole


def url(ns: str, plural: str) -> str:
    path = PATHS[plural].replace("NS", ns.rpartition("/")[2])
    return f"/api/{path}" if path.startswith("v1/") else f"/apis/{path}"


@pytest.mark.parametrize("plural", PATHS)
async def test_faults_of_one_field_are_reported(api: API, ns: str, plural: str) -> None:
    path = f"{url(ns, plural)}?dryRun=All"
    (await api.post(path, {"metadata": {"name": "a"}, **VALID[PATHS[plural]]})).expect(201)
    for given, field, value, faults in FAULTS:
        if given == plural:
            answer = (await api.post(path, changed(VALID[PATHS[plural]], field, value))).expect(422)
            found = [f"{at}: {message}" for _, at, message in answer.causes]
            assert len(found) == len(faults), found
            assert all(any(one.startswith(fault) for one in found) for fault in faults), found


async def test_the_two_data_sources_of_a_claim_are_kept_equal(api: API, ns: str) -> None:
    path = f"{ns}/persistentvolumeclaims?dryRun=All"
    snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s"}
    other = {"apiGroup": "a.b", "kind": "Image", "name": "i"}
    cases: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
        ({"dataSource": snapshot}, snapshot),
        ({"dataSourceRef": other}, other),
        ({"dataSource": other}, None),
    ]
    for given, kept in cases:
        answer = (await api.post(path, {"metadata": {"name": "a"}, "spec": {**CLAIM, **given}})).expect(201)
        assert [answer.json["spec"].get(field) for field in ("dataSource", "dataSourceRef")] == [kept, kept]


@pytest.mark.parametrize("plural", ["flowschemas", "prioritylevelconfigurations"])
async def test_the_fixed_objects_of_flow_control_do_not_change(api: API, ns: str, plural: str) -> None:
    path = f"{url(ns, plural)}/catch-all?dryRun=All"
    patch = {"spec": {"matchingPrecedence": 7, "limited": {"lendablePercent": 7}}}
    answer = (await api.patch(path, patch)).expect(422)
    assert [(at, message.rpartition(": ")[2]) for _, at, message in answer.causes] == [
        ("spec", "spec of 'catch-all' must equal the fixed value")
    ]


async def test_images_that_have_no_valid_name_are_not_pulled_always(api: API, ns: str) -> None:
    images = {"nginx": "Always", "a.b/c:latest": "Always", "nginx:1": "IfNotPresent", "UPPER": "IfNotPresent"}
    containers = [{"name": f"c{index}", "image": image} for index, image in enumerate(images)]
    answer = await api.post(f"{ns}/pods?dryRun=All", {"metadata": {"name": "a"}, "spec": {"containers": containers}})
    assert [each["imagePullPolicy"] for each in answer.expect(201).json["spec"]["containers"]] == list(images.values())


async def test_a_negative_grace_period_becomes_one_second(api: API, ns: str) -> None:
    spec = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": -5}
    answer = (await api.post(f"{ns}/pods?dryRun=All", {"metadata": {"name": "a"}, "spec": spec})).expect(201)
    assert answer.json["spec"]["terminationGracePeriodSeconds"] == 1


JOB: Final = {
    "completionMode": "Indexed",
    "completions": 3,
    "parallelism": 3,
    "backoffLimitPerIndex": 1,
    "managedBy": "example.com/nobody",
    "template": {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}},
}
TIME: Final = "2026-01-01T00:00:00Z"
BEGUN: Final[dict[str, Any]] = {"startTime": TIME, "succeeded": 0}


def conditions(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "True", "lastProbeTime": TIME, "lastTransitionTime": TIME} for kind in kinds]


STATUSES: Final[list[tuple[dict[str, Any], list[str]]]] = [
    (
        {"conditions": conditions("Complete", "SuccessCriteriaMet"), "active": 1},
        [
            "status.completionTime: Required value: completionTime is required for Complete jobs",
            "status.active: Invalid value: 1: active>0 is invalid for finished job",
        ],
    ),
    (
        {"conditions": conditions("Failed")},
        ["status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition"],
    ),
    (
        {"conditions": conditions("Complete"), "completionTime": TIME, "startTime": None},
        [
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true "
            "condition",
            "status.startTime: Required value: startTime is required for finished job",
        ],
    ),
    (
        {"completedIndexes": "0-1", "failedIndexes": "1"},
        ['status.failedIndexes: Invalid value: "1": failedIndexes and completedIndexes overlap at index: 1'],
    ),
    (
        {"completedIndexes": "1,0"},
        [
            'status.completedIndexes: Invalid value: "1,0": error parsing completedIndexes: non-increasing order, '
            "previous: 1, current: 0"
        ],
    ),
    (
        {"uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a", ""]}, "ready": 1},
        [
            'status.uncountedTerminatedPods.failed[0]: Duplicate value: "a"',
            'status.uncountedTerminatedPods.failed[1]: Invalid value: "": must not be empty',
            "status.ready: Invalid value: 1: cannot set more ready pods than active",
        ],
    ),
]


async def test_the_status_of_a_job_is_validated(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/batch/v1") + "/jobs"
    (await api.post(path, {"metadata": {"name": "a"}, "spec": JOB})).expect(201)
    for status, faults in STATUSES:
        answer = (await api.patch(f"{path}/a/status?dryRun=All", {"status": {**BEGUN, **status}})).expect(422)
        found = [f"{at}: {message}" for _, at, message in answer.causes]
        assert sorted(found) == sorted(faults)


async def test_a_finished_job_does_not_run_again(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/batch/v1") + "/jobs"
    (await api.post(path, {"metadata": {"name": "b"}, "spec": JOB})).expect(201)
    done = conditions("SuccessCriteriaMet", "Complete")
    status = {**BEGUN, "completionTime": TIME, "conditions": done, "failed": 2}
    (await api.patch(f"{path}/b/status", {"status": status})).expect(200)
    answer = await api.patch(f"{path}/b/status", {"status": {"conditions": [], "completionTime": None, "failed": 1}})
    found = [f"{at}: {message}" for _, at, message in answer.expect(422).causes]
    assert found == [
        "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
        "status.failed: Invalid value: 1: cannot decrease the failed counter",
        "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
    ]


BALANCER: Final = {
    "type": "LoadBalancer",
    "ports": [{"port": 80}],
    "externalTrafficPolicy": "Local",
    "loadBalancerClass": "a.b/c",
}
RUNNING: Final[dict[str, Any]] = {
    "containerStatuses": [{"name": "c", "image": "i", "imageID": "", "state": {"running": {}}}]
}
ENDED: Final[dict[str, Any]] = {**RUNNING["containerStatuses"][0], "state": {"terminated": {"exitCode": 0}}}
CONTAINERS: Final = [{"name": "c", "image": "i"}]
ONCE: Final = {"containers": CONTAINERS, "restartPolicy": "OnFailure", "schedulingGates": [{"name": "a.b/c"}]}
TEMPLATE: Final = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": CONTAINERS}}
MAY_CHANGE: Final = "except resources.requests and volumeAttributesClassName for bound claims"
UPDATES: Final[list[tuple[str, dict[str, Any], dict[str, Any], str, dict[str, Any], list[str]]]] = [
    (
        "services",
        {"spec": BALANCER},
        {},
        "",
        {"spec": {"loadBalancerClass": None, "healthCheckNodePort": 30999}},
        [
            "spec.loadBalancerClass: Invalid value: null: may not change once set",
            "spec.healthCheckNodePort: Forbidden: field is immutable",
        ],
    ),
    (
        "services",
        {"spec": BALANCER},
        {},
        "/status",
        {"status": {"loadBalancer": {"ingress": [{"ip": "10.0.0.01"}, {"ip": "::ffff:10.0.0.1", "ipMode": "Slow"}]}}},
        [
            'status.loadBalancer.ingress[0].ip: Invalid value: "10.0.0.01": must not have leading 0s',
            'status.loadBalancer.ingress[1].ip: Invalid value: "::ffff:10.0.0.1": must not be an IPv4-mapped IPv6',
            'status.loadBalancer.ingress[1].ipMode: Unsupported value: "Slow": supported values: "Proxy", "VIP"',
        ],
    ),
    (
        "persistentvolumeclaims",
        {"spec": {**CLAIM, "volumeAttributesClassName": "a", "storageClassName": "none"}},
        {},
        "",
        {"spec": {"resources": {"limits": {"storage": "9Gi"}}, "volumeAttributesClassName": "b"}},
        [f"spec: Forbidden: spec is immutable after creation {MAY_CHANGE}"],
    ),
    (
        "persistentvolumeclaims",
        {"spec": {**CLAIM, "storageClassName": "none"}},
        {},
        "/status",
        {"status": {"allocatedResourceStatuses": {"storage": "Slow"}}},
        ['status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResize'],
    ),
    (
        "pods",
        {"spec": ONCE},
        {"containerStatuses": [ENDED]},
        "/status",
        {"status": {**RUNNING, "conditions": [{"type": "a b", "status": "True"}], "observedGeneration": -1}},
        [
            'status.conditions[0].Type: Invalid value: "a b": name part must consist of',
            "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
        ],
    ),
    (
        "pods",
        {"spec": ONCE},
        {},
        "/status",
        {"status": {"hostIP": "10.0.0.1", "hostIPs": [{"ip": "10.0.0.2"}], "podIPs": [{"ip": "here"}]}},
        [
            'status.podIPs[0]: Invalid value: "here": must be a valid IP address',
            'status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`',
        ],
    ),
    (
        "replicationcontrollers",
        {"spec": {"replicas": 0, "selector": {"a": "b"}, "template": TEMPLATE}},
        {},
        "/status",
        {"status": {"readyReplicas": 2, "availableReplicas": 3}},
        [
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas",
            "status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas",
        ],
    ),
]


@pytest.mark.parametrize(("plural", "body", "status", "view", "patch", "faults"), UPDATES)
async def test_faults_of_a_change_are_reported(
    api: API,
    ns: str,
    plural: str,
    body: dict[str, Any],
    status: dict[str, Any],
    view: str,
    patch: dict[str, Any],
    faults: list[str],
) -> None:
    made = (await api.post(f"{ns}/{plural}", {"metadata": {"generateName": "a-"}, **body})).expect(201)
    name = made.json["metadata"]["name"]
    if status:
        (await api.patch(f"{ns}/{plural}/{name}/status", {"status": status})).expect(200)
    answer = (await api.patch(f"{ns}/{plural}/{name}{view}?dryRun=All", patch)).expect(422)
    found = [f"{at}: {message}" for _, at, message in answer.causes]
    assert len(found) == len(faults), found
    assert all(any(one.startswith(fault) for one in found) for fault in faults), found


async def test_the_status_of_pods_and_services_is_completed(api: API, ns: str) -> None:
    (await api.post(f"{ns}/pods", {"metadata": {"name": "p"}, "spec": ONCE})).expect(201)
    one = await api.patch(f"{ns}/pods/p/status?dryRun=All", {"status": {"podIP": "10.0.0.1"}})
    assert one.expect(200).json["status"]["podIPs"] == [{"ip": "10.0.0.1"}]
    several = await api.patch(f"{ns}/pods/p/status?dryRun=All", {"status": {"podIPs": [{"ip": "10.0.0.2"}]}})
    assert several.expect(200).json["status"]["podIP"] == "10.0.0.2"


async def test_ranges_of_addresses_have_no_bits_beyond_their_prefix(api: API, ns: str) -> None:
    path = ns.replace("/api/v1", "/apis/networking.k8s.io/v1") + "/networkpolicies?dryRun=All"
    for cidr, why in {
        "10.1.2.0/16": "must not have bits set beyond the prefix length",
        "10.01.0.0/16": "must not have leading 0s in IP or prefix length",
        "::ffff:10.1.0.0/112": "must not have an IPv4-mapped IPv6 address",
    }.items():
        spec: dict[str, Any] = {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": cidr}}]}]}
        answer = (await api.post(path, {"metadata": {"name": "a"}, "spec": spec})).expect(422)
        assert [message for _, _, message in answer.causes] == [f'Invalid value: "{cidr}": {why}']
