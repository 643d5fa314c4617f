"""The rules for specs of autoscalers, LimitRanges, quotas and Jobs: which fields break them, in which words."""

from __future__ import annotations

from typing import Any

import pytest

from conformance.rawapi import API

NAME = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
STANDARD = "must be a standard resource type or fully qualified"
CONTAINER = "must be a standard resource for containers"
USAGE = {"type": "Utilization", "averageUtilization": 5}
METRICS = '"ContainerResource", "External", "Object", "Pods", "Resource"'
EITHER = "must be either Utilization, Value, or AverageValue"


async def errors_of(api: API, path: str, spec: dict[str, Any], **metadata: Any) -> list[tuple[str, str]]:
    """Return the fields and messages for which the server rejects an object; an empty list if it accepts it."""
    answer = await api.post(f"{path}?dryRun=All", {"metadata": {"name": "a", **metadata}, "spec": spec})
    if answer.status == 201:
        return []
    return [(field, message) for _, field, message in answer.expect(422).causes]


def in_group(ns: str, group: str, plural: str) -> str:
    return f"{ns.replace('/api/v1', f'/apis/{group}')}/{plural}"


AUTOSCALERS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"scaleTargetRef": {"kind": "ReplicationController", "name": "a"}}, []),
    (
        {"scaleTargetRef": {"kind": "A", "name": "a", "apiVersion": "/v1"}},
        [("spec.scaleTargetRef.apiVersion", 'Invalid value: "/v1": apiVersion must specify API group')],
    ),
    (
        {"scaleTargetRef": {"kind": "A", "name": "a", "apiVersion": "a/b/c"}},
        [("spec.scaleTargetRef.apiVersion", 'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c')],
    ),
    (
        {"minReplicas": 0},
        [
            ("spec.minReplicas", "Invalid value: 0: must be greater than or equal to 1"),
            (
                "spec.metrics",
                "Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ),
        ],
    ),
    (
        {"metrics": [{"type": "x"}]},
        [("spec.metrics[0].type", f'Unsupported value: "x": supported values: {METRICS}')] * 2,
    ),
    (
        {"metrics": [{"type": "Resource"}]},
        [("spec.metrics[0].resource", "Required value: must populate information for the given metric source")],
    ),
    (
        {
            "metrics": [
                {
                    "type": "Resource",
                    "resource": {"name": "cpu", "target": USAGE},
                    "pods": {"metric": {"name": "a"}, "target": USAGE},
                }
            ]
        },
        [
            ("spec.metrics[0].pods.target.averageValue", "Required value: must specify a positive target averageValue"),
            ("spec.metrics[0].pods", "Forbidden: must populate the given metric source only"),
        ],
    ),
    (
        {
            "metrics": [
                {
                    "type": "Object",
                    "object": {
                        "describedObject": {"kind": "A", "name": "b", "apiVersion": "a/b/c"},
                        "metric": {"name": "a/b"},
                        "target": {"type": "Value", "value": "0", "averageValue": "-1"},
                    },
                }
            ]
        },
        [
            (
                "spec.metrics[0].object.describedObject.apiVersion",
                'Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c',
            ),
            ("spec.metrics[0].object.metric.name", "Invalid value: \"a/b\": may not contain '/'"),
            ("spec.metrics[0].object.target.value", 'Invalid value: "0": must be positive'),
            ("spec.metrics[0].object.target.averageValue", 'Invalid value: "-1": must be positive'),
        ],
    ),
    (
        {
            "metrics": [
                {
                    "type": "External",
                    "external": {"metric": {"name": "a"}, "target": {"type": "x", "value": "1", "averageValue": "1"}},
                }
            ]
        },
        [
            ("spec.metrics[0].external.target.type", f'Invalid value: "x": {EITHER}'),
            (
                "spec.metrics[0].external.target.value",
                "Forbidden: may not set both a target value for metric and a per-pod target",
            ),
        ],
    ),
    (
        {"metrics": [{"type": "ContainerResource", "containerResource": {"name": "foo", "target": USAGE}}]},
        [
            ("spec.metrics[0].containerResource.name", f'Invalid value: "foo": {STANDARD}'),
            ("spec.metrics[0].containerResource.name", f'Invalid value: "foo": {CONTAINER}'),
            ("spec.metrics[0].containerResource.container", "Required value: must specify a container"),
        ],
    ),
    (
        {
            "behavior": {
                "scaleUp": {"policies": [{}], "stabilizationWindowSeconds": -1, "selectPolicy": "x", "tolerance": "-1"},
                "scaleDown": {
                    "stabilizationWindowSeconds": 3601,
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 1801}],
                },
            }
        },
        [
            (
                "spec.behavior.scaleUp.stabilizationWindowSeconds",
                "Invalid value: -1: must be greater than or equal to zero",
            ),
            (
                "spec.behavior.scaleUp.selectPolicy",
                'Unsupported value: "x": supported values: "Disabled", "Max", "Min"',
            ),
            ("spec.behavior.scaleUp.policies[0].type", 'Unsupported value: "": supported values: "Percent", "Pods"'),
            ("spec.behavior.scaleUp.policies[0].value", "Invalid value: 0: must be greater than zero"),
            ("spec.behavior.scaleUp.policies[0].periodSeconds", "Invalid value: 0: must be greater than zero"),
            ("spec.behavior.scaleUp.tolerance", 'Invalid value: "-1": must be greater than or equal to 0'),
            (
                "spec.behavior.scaleDown.stabilizationWindowSeconds",
                "Invalid value: 3601: must be less than or equal to 3600",
            ),
            (
                "spec.behavior.scaleDown.policies[0].periodSeconds",
                "Invalid value: 1801: must be less than or equal to 1800",
            ),
        ],
    ),
]


async def test_metrics_and_behavior_of_autoscalers_are_checked(api: API, ns: str) -> None:
    path = in_group(ns, "autoscaling/v2", "horizontalpodautoscalers")
    target = {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}
    for spec, expected in AUTOSCALERS:
        assert await errors_of(api, path, {"scaleTargetRef": target, "maxReplicas": 3, **spec}) == expected, spec


async def test_unset_behavior_of_autoscalers_is_defaulted(api: API, ns: str) -> None:
    path = in_group(ns, "autoscaling/v2", "horizontalpodautoscalers")
    target = {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}
    spec = {"scaleTargetRef": target, "maxReplicas": 3, "behavior": {"scaleDown": {"selectPolicy": "Disabled"}}}
    created = (await api.post(f"{path}?dryRun=All", {"metadata": {"name": "a"}, "spec": spec})).expect(201)
    percent, pods = {"type": "Percent", "value": 100, "periodSeconds": 15}, {"type": "Pods", "value": 4}
    assert created.json["spec"]["behavior"] == {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [pods | {"periodSeconds": 15}, percent],
        },
        "scaleDown": {"selectPolicy": "Disabled", "policies": [percent]},
    }


@pytest.mark.parametrize("text", ["garbage", "[", "5", "{}", "[5]", "null", '{"scaleUp":5}'])
async def test_invalid_annotations_of_autoscalers_are_ignored(api: API, ns: str, text: str) -> None:
    path = in_group(ns, "autoscaling/v1", "horizontalpodautoscalers")
    keys = ("metrics", "behavior", "current-metrics", "conditions")
    annotations = {f"autoscaling.alpha.kubernetes.io/{key}": text for key in keys}
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "a", "apiVersion": "apps/v1"}, "maxReplicas": 3}
    made = {"metadata": {"name": "a", "annotations": annotations}, "spec": spec}
    created = (await api.post(f"{path}?dryRun=All", made)).expect(201)
    assert created.json["spec"]["targetCPUUtilizationPercentage"] == 80


LIMITS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    ({"type": "a.b/c", "max": {"pods": "1"}}, []),
    ({"type": "foo"}, [("type", 'Invalid value: "foo": must be a standard limit type or fully qualified')]),
    (
        {"type": "Container", "maxLimitRequestRatio": {"foo": "2"}},
        [("maxLimitRequestRatio[foo]", f'Invalid value: "foo": {why}') for why in (STANDARD, CONTAINER)],
    ),
    (
        {"type": "Container", "defaultRequest": {"a b": "1"}},
        [("defaultRequest[a b]", f'Invalid value: "a b": {why}') for why in (NAME, CONTAINER)],
    ),
    (
        {"type": "Pod", "max": {"requests.cpu": "1"}, "default": {"foo": "1"}},
        [
            ("max[requests.cpu]", f'Invalid value: "requests.cpu": {CONTAINER}'),
            ("default", "Forbidden: may not be specified when `type` is 'Pod'"),
        ],
    ),
    (
        {"type": "Container", "maxLimitRequestRatio": {"cpu": "0.5"}},
        [("maxLimitRequestRatio[cpu]", 'Invalid value: "500m": ratio 500m is less than 1')],
    ),
    (
        {"type": "Container", "min": {"cpu": "300m"}, "max": {"cpu": "1"}, "maxLimitRequestRatio": {"cpu": "3.4"}},
        [
            (
                "maxLimitRequestRatio[cpu]",
                'Invalid value: "3400m": ratio 3400m is greater than max/min = 3.333333',
            )
        ],
    ),
    ({"type": "Container", "min": {"cpu": "0"}, "max": {"cpu": "0"}, "maxLimitRequestRatio": {"cpu": "3"}}, []),
    (
        {"type": "Container", "default": {"a.b/c": "2"}, "defaultRequest": {"a.b/c": "1"}},
        [
            (
                "defaultRequest[a.b/c]",
                'Invalid value: "1": default value 2 must equal to defaultRequest value 1 in a.b/c',
            )
        ],
    ),
]


async def test_the_names_and_ratios_of_limits_are_checked(api: API, ns: str) -> None:
    for limit, expected in LIMITS:
        found = await errors_of(api, f"{ns}/limitranges", {"limits": [limit]})
        assert found == [(f"spec.limits[0].{field}", message) for field, message in expected], limit


async def test_the_names_of_extended_resources_are_checked(api: API, ns: str) -> None:
    resources = {"limits": {"requests.a/b": "1"}, "requests": {"requests.a/b": "1"}}
    found = await errors_of(api, f"{ns}/pods", {"containers": [{"name": "a", "image": "a", "resources": resources}]})
    message = 'Invalid value: "requests.a/b": doesn\'t follow extended resource name standard'
    paths = [f"spec.containers[0].resources.{field}[requests.a/b]" for field in ("limits", "requests")]
    assert found == [(path, message) for path in paths]
    assert await errors_of(api, f"{ns}/resourcequotas", {"hard": {"requests.hugepages-2Mi": "1", "a.b/c": "1"}}) == []


POD: dict[str, Any] = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}}
INDEXED = {"completionMode": "Indexed", "completions": 3}
MANY = {"completionMode": "Indexed", "completions": 100_001, "backoffLimitPerIndex": 1}
HIGH = (
    "Invalid value: 10001: must be less than or equal to 10000 when completions are above 100000 and used with backoff "
    "limit per index"
)


def failure_policy(**rule: Any) -> dict[str, Any]:
    return {"podFailurePolicy": {"rules": [{"action": "Ignore"} | rule]}}


def success_policy(**rule: Any) -> dict[str, Any]:
    return INDEXED | {"successPolicy": {"rules": [rule]}}


JOBS: list[tuple[dict[str, Any], list[tuple[str, str]]]] = [
    (
        INDEXED | {"parallelism": 100_001},
        [
            (
                "parallelism",
                "Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
            )
        ],
    ),
    (
        INDEXED | {"maxFailedIndexes": 4},
        [
            ("backoffLimitPerIndex", "Required value: when maxFailedIndexes is specified"),
            ("maxFailedIndexes", "Invalid value: 4: must be less than or equal to completions"),
        ],
    ),
    (MANY, [("maxFailedIndexes", "Required value: must be specified when completions is above 100000")]),
    (
        MANY | {"parallelism": 10_001, "maxFailedIndexes": 10_001},
        [("parallelism", HIGH), ("maxFailedIndexes", HIGH)],
    ),
    ({"managedBy": "a"}, [("managedBy", 'Invalid value: "a": must be a domain-prefixed path (such as "acme.io/foo")')]),
    ({"managedBy": f"a.b/{'c' * 70}"}, [("managedBy", "Too long: may not be more than 63 bytes")]),
    (
        failure_policy(action="FailIndex", onExitCodes={"operator": "In", "values": [0]}),
        [
            (
                "podFailurePolicy.rules[0].action",
                'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set',
            ),
            (
                "podFailurePolicy.rules[0].onExitCodes.values[0]",
                "Invalid value: 0: must not be 0 for the In operator",
            ),
        ],
    ),
    (
        failure_policy(onExitCodes={"operator": "NotIn", "containerName": "z", "values": [3, 2, 2]}),
        [
            (
                "podFailurePolicy.rules[0].onExitCodes.containerName",
                'Invalid value: "z": must be one of the container or initContainer names in the pod template',
            ),
            ("podFailurePolicy.rules[0].onExitCodes.values[2]", "Duplicate value: 2"),
            ("podFailurePolicy.rules[0].onExitCodes.values", "Invalid value: [3,2,2]: must be ordered"),
        ],
    ),
    (
        failure_policy(),
        [
            (
                "podFailurePolicy.rules[0]",
                "Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
            )
        ],
    ),
    (
        failure_policy(onPodConditions=[{"type": "a", "status": "x"}]),
        [
            (
                "podFailurePolicy.rules[0].onPodConditions[0].status",
                'Unsupported value: "x": supported values: "False", "True", "Unknown"',
            )
        ],
    ),
    (
        failure_policy(onPodConditions=[{"type": "a"}]) | {"podReplacementPolicy": "TerminatingOrFailed"},
        [("podReplacementPolicy", 'Unsupported value: "TerminatingOrFailed": supported values: "Failed"')],
    ),
    (
        INDEXED | {"successPolicy": {"rules": []}},
        [
            (
                "successPolicy.rules",
                "Required value: at least one rules must be specified when the successPolicy is specified",
            )
        ],
    ),
    (
        success_policy(),
        [
            (
                "successPolicy.rules[0]",
                "Required value: at least one of succeededCount or succeededIndexes must be specified",
            )
        ],
    ),
    (
        success_policy(succeededCount=4),
        [
            (
                "successPolicy.rules[0].succeededCount",
                "Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
            )
        ],
    ),
    *(
        (
            success_policy(succeededIndexes=text),
            [
                (
                    "successPolicy.rules[0].succeededIndexes",
                    f'Invalid value: "{text}": error parsing succeededIndexes: {why}',
                )
            ],
        )
        for text, why in (
            ("x", 'cannot convert string to integer for index: "x"'),
            ("0-5", 'too large index: "5"'),
            ("2-1", "non-increasing order, previous: 2, current: 1"),
            ("1,1", "non-increasing order, previous: 1, current: 1"),
        )
    ),
]


async def test_the_policies_of_jobs_are_checked(api: API, ns: str) -> None:
    for spec, expected in JOBS:
        found = await errors_of(api, in_group(ns, "batch/v1", "jobs"), {"template": POD} | spec)
        assert found == [(f"spec.{field}", message) for field, message in expected], spec
    cron = {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": POD, "selector": {}}}}
    [(field, message)] = await errors_of(api, in_group(ns, "batch/v1", "cronjobs"), cron)
    assert field == "spec.jobTemplate.spec.selector"
    assert message.endswith("`selector` will be auto-generated")


async def test_the_name_of_an_indexed_job_must_make_hostnames(api: API, ns: str) -> None:
    path, spec = in_group(ns, "batch/v1", "jobs"), {"template": POD} | INDEXED
    why = "will not able to create pod with invalid DNS label"
    assert await errors_of(api, path, spec, name="a.b") == [("metadata.name", f'Invalid value: "a.b": {why}: a.b-2')]
    assert await errors_of(api, path, spec, name="a" * 61) == []
    assert await errors_of(api, path, spec | {"completions": 0}, name="a.b") == []


async def test_labels_that_contradict_a_generated_selector_are_rejected(api: API, ns: str) -> None:
    template = POD | {"metadata": {"labels": {"job-name": "x"}}}
    found = await errors_of(api, in_group(ns, "batch/v1", "jobs"), {"template": template})
    assert [(field, message.rpartition(": ")[2]) for field, message in found] == [
        ("spec.template.metadata.labels[job-name]", "must be 'a'")
    ]


async def test_the_drivers_and_images_of_volumes_are_checked(api: API, ns: str) -> None:
    containers = [{"name": "a", "image": "a"}]
    sources = [
        {"csi": {"driver": "../x"}},
        {"csi": {"driver": "a" * 64}},
        {"image": {"reference": "a", "pullPolicy": "x"}},
    ]
    volumes = [{"name": f"v{index}", **source} for index, source in enumerate(sources)]
    name, length, policy = await errors_of(api, f"{ns}/pods", {"containers": containers, "volumes": volumes})
    assert name[0] == "spec.volumes[0].csi.driver"
    assert name[1].startswith('Invalid value: "../x": a lowercase RFC 1123 subdomain must consist of')
    assert length == ("spec.volumes[1].csi.driver", "Too long: may not be more than 63 bytes")
    why = 'Unsupported value: "x": supported values: "Always", "IfNotPresent", "Never"'
    assert policy == ("spec.volumes[2].image.pullPolicy", why)
