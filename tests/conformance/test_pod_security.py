"""Pod security: levels of namespaces, what they reject and warn of, and the labels that choose them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from conformance.rawapi import API

PREFIX: Final = "pod-security.kubernetes.io/"
SAFE: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def pod(name: str = "p", spec: dict[str, Any] | None = None, **container: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "nginx:1", **container}], **(spec or {})},
    }


async def label(api: API, ns: str, **labels: str | None) -> str:
    """Set labels of Pod security, and return the warnings."""
    named = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in labels.items()}
    answer = (await api.patch(ns, {"metadata": {"labels": named}})).expect(200)
    return answer.headers.get("warning", "")


BASELINE: Final[list[tuple[dict[str, Any], str]]] = [
    (pod(spec={"hostNetwork": True}), "host namespaces (hostNetwork=true)"),
    (pod(spec={"hostPID": True, "hostIPC": True}), "host namespaces (hostPID=true, hostIPC=true)"),
    (
        pod(spec={"volumes": [{"name": "v", "hostPath": {"path": "/a"}}, {"name": "w", "hostPath": {"path": "/b"}}]}),
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        pod(ports=[{"containerPort": 90, "hostPort": 90}, {"containerPort": 1000, "hostPort": 1000}]),
        'hostPort (container "c" uses hostPorts 1000, 90)',
    ),
    (
        pod(securityContext={"privileged": True}),
        'privileged (container "c" must not set securityContext.privileged=true)',
    ),
    (
        pod(securityContext={"capabilities": {"add": ["NET_RAW", "CHOWN", "BPF"]}}),
        'non-default capabilities (container "c" must not include "BPF", "NET_RAW" in '
        "securityContext.capabilities.add)",
    ),
    (
        pod(spec={"securityContext": {"appArmorProfile": {"type": "Unconfined"}}}),
        'forbidden AppArmor profile (pod must not set AppArmor profile type to "Unconfined")',
    ),
    (
        pod(
            spec={"securityContext": {"seLinuxOptions": {"type": "x_t", "user": "u"}}},
            securityContext={"seLinuxOptions": {"type": "y_t", "role": "r"}},
        ),
        'seLinuxOptions (pod and container "c" set forbidden securityContext.seLinuxOptions: types "x_t", "y_t"; '
        "user may not be set; role may not be set)",
    ),
    (
        pod(securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (container "c" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        pod(
            spec={"securityContext": {"sysctls": [{"name": "kernel.sem", "value": "1"}, {"name": "a.b", "value": ""}]}}
        ),
        "forbidden sysctls (kernel.sem, a.b)",
    ),
    (
        pod(
            livenessProbe={"httpGet": {"host": "b", "port": 80}}, readinessProbe={"tcpSocket": {"host": "a", "port": 1}}
        ),
        'probe or lifecycle host (container "c" uses probe or lifecycle hosts "a", "b")',
    ),
    (
        pod(
            spec={
                "hostNetwork": True,
                "securityContext": {"windowsOptions": {"hostProcess": True}},
                "os": {"name": "windows"},
            }
        ),
        "host namespaces (hostNetwork=true), hostProcess (pod must not set "
        "securityContext.windowsOptions.hostProcess=true)",
    ),
]


async def test_the_level_baseline_rejects_pods_with_reasons(api: API, ns: str) -> None:
    await label(api, ns, enforce="baseline", enforce_version="v1.35")
    for body, why in BASELINE:
        answer = (await api.post(f"{ns}/pods?dryRun=All", body)).expect(403)
        assert answer.message == f'pods "p" is forbidden: violates PodSecurity "baseline:v1.35": {why}'
    (await api.post(f"{ns}/pods?dryRun=All", pod())).expect(201)
    await label(api, ns, enforce_version="v1.30")
    probed = pod(livenessProbe={"httpGet": {"host": "b", "port": 80}})
    (await api.post(f"{ns}/pods?dryRun=All", probed)).expect(201)


RESTRICTED: Final[list[tuple[dict[str, Any], str]]] = [
    (
        pod(),
        'allowPrivilegeEscalation != false (container "c" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "c" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "c" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "c" must set securityContext.seccompProfile.type to "RuntimeDefault" or '
        '"Localhost")',
    ),
    (
        pod(securityContext={**SAFE, "capabilities": {"drop": ["ALL"], "add": ["CHOWN", "NET_BIND_SERVICE"]}}),
        'unrestricted capabilities (container "c" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        pod(spec={"securityContext": {"runAsUser": 0}}, securityContext=SAFE),
        "runAsUser=0 (pod must not set runAsUser=0)",
    ),
    (
        pod(
            spec={
                "securityContext": {"runAsNonRoot": False},
                "initContainers": [{"name": "i", "image": "i", "securityContext": SAFE}],
            },
            securityContext={**SAFE, "runAsNonRoot": False},
        ),
        'runAsNonRoot != true (pod and container "c" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        pod(
            spec={
                "volumes": [
                    {"name": "v", "hostPath": {"path": "/a"}},
                    {"name": "w", "nfs": {"server": "s", "path": "/"}},
                ]
            },
            securityContext=SAFE,
        ),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
]


async def test_the_level_restricted_rejects_pods_with_reasons(api: API, ns: str) -> None:
    await label(api, ns, enforce="restricted")
    for body, why in RESTRICTED:
        answer = (await api.post(f"{ns}/pods?dryRun=All", body)).expect(403)
        assert answer.message == f'pods "p" is forbidden: violates PodSecurity "restricted:latest": {why}'
        assert answer.json["details"] == {"name": "p", "kind": "pods"}
    accepted = pod(securityContext=SAFE)
    answer = (await api.post(f"{ns}/pods?dryRun=All", accepted)).expect(201)
    assert "warning" not in answer.headers
    rootless = pod(securityContext={**SAFE, "runAsNonRoot": False, "runAsUser": 0}, spec={"hostUsers": False})
    (await api.post(f"{ns}/pods?dryRun=All", rootless)).expect(201)
    (
        await api.post(
            f"{ns}/pods?dryRun=All", pod(spec={"os": {"name": "windows"}, "securityContext": {"runAsNonRoot": True}})
        )
    ).expect(201)
    generated = {**pod(), "metadata": {"generateName": "web-"}}
    assert (await api.post(f"{ns}/pods", generated)).expect(403).message.startswith('pods "web-')


async def test_templates_of_workloads_are_accepted_with_a_warning(api: API, ns: str) -> None:
    await label(api, ns, enforce="baseline", audit="restricted")
    meta, labels = {"name": "web"}, {"a": "b"}
    template = {"metadata": {"labels": labels}, "spec": pod(spec={"hostNetwork": True})["spec"]}
    apps, batch = (ns.replace("/api/v1", f"/apis/{group}/v1") for group in ("apps", "batch"))
    spec = {"selector": {"matchLabels": labels}, "template": template, "replicas": 0}
    once = {**template, "spec": {**template["spec"], "restartPolicy": "Never"}}
    workloads: dict[str, dict[str, Any]] = {
        f"{apps}/deployments": {"spec": spec},
        f"{apps}/daemonsets": {"spec": {key: value for key, value in spec.items() if key != "replicas"}},
        f"{apps}/statefulsets": {"spec": {**spec, "serviceName": "web"}},
        f"{apps}/replicasets": {"spec": spec},
        f"{ns}/replicationcontrollers": {"spec": {**spec, "selector": labels}},
        f"{ns}/podtemplates": {"template": template},
        f"{batch}/jobs": {"spec": {"template": once, "suspend": True}},
        f"{batch}/cronjobs": {"spec": {"schedule": "@yearly", "jobTemplate": {"spec": {"template": once}}}},
    }
    warning = '299 - "would violate PodSecurity \\"baseline:latest\\": host namespaces (hostNetwork=true)"'
    for path, body in workloads.items():
        answer = (await api.post(f"{path}?dryRun=All", {"metadata": meta, **body})).expect(201)
        assert answer.headers.get("warning") == warning, path
    assert (await api.post(f"{ns}/configmaps?dryRun=All", {"metadata": meta})).headers.get("warning") is None
    await label(api, ns, warn="privileged", audit=None)
    path, body = next(iter(workloads.items()))
    assert "warning" not in (await api.post(f"{path}?dryRun=All", {"metadata": meta, **body})).expect(201).headers
    await label(api, ns, enforce="privileged", warn="restricted", warn_version="v1.7")
    answer = (await api.post(f"{ns}/pods?dryRun=All", pod())).expect(201)
    assert answer.headers["warning"] == (
        '299 - "would violate PodSecurity \\"restricted:v1.7\\": runAsNonRoot != true (pod or container \\"c\\" must '
        'set securityContext.runAsNonRoot=true)"'
    )


async def test_a_stricter_level_warns_of_the_pods_that_exist(api: API, ns: str) -> None:
    for name in ("b", "a", "c"):
        (await api.post(f"{ns}/pods", pod(name, spec={"hostNetwork": True}))).expect(201)
    (await api.post(f"{ns}/pods", pod("d", securityContext={"privileged": True}))).expect(201)
    (await api.post(f"{ns}/pods", pod("e", spec={"hostNetwork": True, "hostPID": True, "hostIPC": False}))).expect(201)
    namespace = ns.rpartition("/")[2]
    title = f'299 - "existing pods in namespace \\"{namespace}\\" violate the new PodSecurity enforce level \\"{{}}\\""'
    assert await label(api, ns, warn="baseline", audit="baseline") == ""
    assert await label(api, ns, enforce="baseline") == ", ".join(
        (
            title.format("baseline:latest"),
            '299 - "a (and 3 other pods): host namespaces"',
            '299 - "d: privileged"',
        )
    )
    assert await label(api, ns, enforce="baseline") == ""
    warnings = await label(api, ns, enforce="restricted", enforce_version="v1.20")
    assert warnings.startswith(title.format("restricted:v1.20"))
    assert await label(api, ns, enforce="baseline") == ""
    assert await label(api, ns, enforce_version="v1.21") != ""
    assert await label(api, ns, enforce="privileged") == ""


async def test_an_update_of_a_pod_is_checked_if_it_concerns_containers(api: API, ns: str) -> None:
    (await api.post(f"{ns}/pods", pod("p", spec={"hostNetwork": True, "nodeName": "unknown"}))).expect(201)
    await label(api, ns, enforce="baseline")
    (await api.patch(f"{ns}/pods/p", {"metadata": {"labels": {"a": "b"}}})).expect(200)
    (await api.patch(f"{ns}/pods/p/status", {"status": {"phase": "Running"}})).expect(200)
    change = {"spec": {"containers": [{"name": "c", "image": "nginx:2"}]}}
    why = 'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)'
    answer = (await api.patch(f"{ns}/pods/p", change, "strategic")).expect(403)
    assert answer.message == f'pods "p" is forbidden: {why}'
    debug = {"spec": {"ephemeralContainers": [{"name": "d", "image": "busybox"}]}}
    answer = (await api.patch(f"{ns}/pods/p/ephemeralcontainers", debug, "strategic")).expect(403)
    assert answer.message == f'pods "p" is forbidden: {why}'


@pytest.mark.parametrize("verb", ["create", "update"])
async def test_invalid_labels_are_refused(api: API, ns: str, verb: str) -> None:
    labels = {f"{PREFIX}enforce": "strict", f"{PREFIX}warn-version": "1.30", f"{PREFIX}audit": "baseline"}
    body = {"metadata": {"name": "pod-security-labels", "labels": labels}}
    if verb == "create":
        answer = await api.post("/api/v1/namespaces?dryRun=All", body)
    else:
        body["metadata"]["name"] = ns.rpartition("/")[2]
        answer = await api.patch(ns, {"metadata": {"labels": labels}})
    assert answer.expect(422).causes == [
        (
            "FieldValueInvalid",
            f"metadata.labels[{PREFIX}enforce]",
            'Invalid value: "strict": must be one of privileged, baseline, restricted',
        ),
        (
            "FieldValueInvalid",
            f"metadata.labels[{PREFIX}warn-version]",
            'Invalid value: "1.30": must be "latest" or "v1.x"',
        ),
    ]
    assert answer.message.startswith(f'Namespace "{body["metadata"]["name"]}" is invalid: [metadata.labels')
