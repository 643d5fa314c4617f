"""The objects that OLM would make of a bundle, in the order in which they are applied.

Names and content follow OLM where other objects may refer to them: Services, Secrets and mounted certificates of
webhooks, annotations of Pods. Follows github.com/operator-framework/operator-controller
internal/operator-controller/rukpak/render/registryv1.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.installation.source import InstallableBundle
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.serviceversion import CERTIFICATES

OWNER: Final = "kubewright.dev/bundle"
"""The annotation of every object of an installation: `<namespace>/<package>`."""
CERTIFICATE_DIGEST: Final = "kubewright.dev/webhook-certificate"
"""The annotation of Pods that identifies the certificate they have. A new value rolls the Pods over."""
TARGETS: Final = "olm.targetNamespaces"
_OPERATOR_NAMESPACE: Final = "olm.operatorNamespace"
_CONVERSION: Final = "ConversionWebhook"
_CONFIGURATIONS: Final = {
    "MutatingAdmissionWebhook": "MutatingWebhookConfiguration",
    "ValidatingAdmissionWebhook": "ValidatingWebhookConfiguration",
}
_MOUNTS: Final = {
    "webhook-cert": (CERTIFICATES, "tls.crt", "tls.key"),
    "apiservice-cert": ("/apiserver.local.config/certificates", "apiserver.crt", "apiserver.key"),
}
"""The volumes that OLM mounts into Pods with webhooks: folder, certificate and key."""
_OF_WEBHOOK: Final = (
    "rules",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "sideEffects",
    "timeoutSeconds",
    "admissionReviewVersions",
)
_CLUSTER_KINDS: Final = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "PriorityClass",
        "ConsoleYAMLSample",
        "ConsoleQuickStart",
        "ConsoleCLIDownload",
        "ConsoleLink",
        "ConsolePlugin",
    }
)
_ADMISSION_GROUP: Final = "admissionregistration.k8s.io"
_OLM_GROUPS: Final = ("*", "operators.coreos.com", "olm.operatorframework.io")
_HTTPS: Final = 443
_LONGEST: Final = 63
_RBAC: Final = "rbac.authorization.k8s.io"
_SEES_NAMESPACES: Final = {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]}
"""What OLM adds to permissions that it grants in all namespaces."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a bundle for one namespace."""

    crds: list[JSONObject]
    objects: list[JSONObject]
    """All others but webhook configurations, in the order in which they are applied; Deployments last."""
    configurations: list[JSONObject]
    """Webhook configurations."""
    secrets: dict[str, tuple[str, ...]]
    """The Secrets with certificates that the objects need, and the host names in these certificates."""
    services: list[str]
    """The names of the Services of webhooks."""

    @property
    def documents(self) -> list[JSONObject]:
        """All objects."""
        return [*self.crds, *self.objects, *self.configurations]


@dataclass(frozen=True, slots=True)
class Placement:
    """Where and for which namespaces a bundle is installed, and with which certificates."""

    namespace: str
    targets: Sequence[str]
    """None for all namespaces."""
    bundles: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """The CAs that API servers trust, in PEM, by the name of the Secret."""
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """A digest of each certificate, by the name of its Secret."""


def render_bundle(bundle: InstallableBundle, placement: Placement) -> Rendered:
    """Return the objects of a bundle. Raises ConfigError for a bundle that OLM cannot install either."""
    _require_installable(bundle)
    served = {deployment_of(each) for each in bundle.webhooks}
    accounts = _accounts(bundle, placement)
    objects = [*accounts, *_permissions(bundle, placement), *_others(bundle, placement)]
    objects += _services(bundle, placement)
    objects += [
        _deployment(bundle, each, placement, has_webhooks=each["name"] in served) for each in bundle.deployments
    ]
    rendered = Rendered(
        [_crd(bundle, each, placement) for each in bundle.crds],
        objects,
        [_configuration(each, placement) for each in bundle.webhooks if each.get("type") in _CONFIGURATIONS],
        {secret_name(each): hosts_of(each, placement.namespace) for each in sorted(served)},
        [service_name(each) for each in sorted(served)],
    )
    owner = f"{placement.namespace}/{bundle.package}"
    for each in rendered.documents:
        metadata = each["metadata"]
        metadata["annotations"] = {**mapping(metadata.get("annotations")), OWNER: owner}
    return rendered


# ---- names


def deployment_of(webhook: JSONObject) -> str:
    """Return the name of the Deployment that serves a webhook."""
    return text(webhook.get("deploymentName"))


def service_name(deployment: str) -> str:
    """Return the name of the Service of the webhooks of a Deployment."""
    return _shortened(deployment.replace(".", "-"), "service")


def secret_name(deployment: str) -> str:
    """Return the name of the Secret with the certificate of a Deployment's webhooks."""
    return _shortened(service_name(deployment), "cert")


def hosts_of(deployment: str, namespace: str) -> tuple[str, ...]:
    """Return the names by which the webhooks of a Deployment are called."""
    service = service_name(deployment)
    return f"{service}.{namespace}.svc", f"{service}.{namespace}", f"{service}.{namespace}.svc.cluster.local"


def _shortened(base: str, suffix: str) -> str:
    return f"{base[: _LONGEST - len(suffix) - 1]}-{suffix}"


# ---- what OLM refuses


def _require_installable(bundle: InstallableBundle) -> None:
    if text(mapping(bundle.spec.get("install")).get("strategy")) != "deployment":
        raise ConfigError(f'{bundle.name}: spec.install.strategy must be "deployment"; OLM knows no other')
    if mapping(bundle.spec.get("apiservicedefinitions")).get("owned"):
        raise ConfigError(
            f"{bundle.name}: spec.apiservicedefinitions.owned: aggregated APIs are not supported; install the bundle "
            "with OLM, or use a CRD instead"
        )
    deployments = [text(each.get("name")) for each in bundle.deployments]
    _require_unique(bundle, "spec.install.spec.deployments", deployments)
    for place, name in enumerate(deployments):
        for error in names.dns1123_subdomain(name):
            raise ConfigError(f'{bundle.name}: spec.install.spec.deployments[{place}].name "{name}": {error}')
    for place, each in enumerate(bundle.webhooks):
        _check_webhook(bundle, f"spec.webhookdefinitions[{place}]", each, deployments)
    for kind in (*_CONFIGURATIONS, _CONVERSION):
        own = [text(each.get("generateName")) for each in bundle.webhooks if each.get("type") == kind]
        _require_unique(bundle, f"spec.webhookdefinitions of type {kind}", own)
    converted = [name for each in bundle.webhooks for name in _converted(each)]
    _require_unique(bundle, "spec.webhookdefinitions with conversionCRDs", converted)


def _require_unique(bundle: InstallableBundle, where: str, found: Sequence[str]) -> None:
    twice = next((each for each in found if found.count(each) > 1), "")
    if twice:
        raise ConfigError(f'{bundle.name}: {where}: "{twice}" is there twice; rename or remove one of them')


def _check_webhook(bundle: InstallableBundle, path: str, webhook: JSONObject, deployments: Sequence[str]) -> None:
    def wrong(field: str, value: str, why: str) -> ConfigError:
        return ConfigError(f'{bundle.name}: {path}.{field} "{value}": {why}')

    kind, deployment = text(webhook.get("type")), deployment_of(webhook)
    if kind not in (*_CONFIGURATIONS, _CONVERSION):
        raise wrong("type", kind, f"must be one of {', '.join((*_CONFIGURATIONS, _CONVERSION))}")
    if deployment not in deployments:
        raise wrong("deploymentName", deployment, f"the bundle has no such Deployment, only {', '.join(deployments)}")
    for error in names.dns1123_subdomain(text(webhook.get("generateName"))):
        raise wrong("generateName", text(webhook.get("generateName")), error)
    owned = {text(each.get("metadata", {}).get("name")) for each in bundle.crds}
    for name in _converted(webhook):
        if name not in owned:
            raise wrong("conversionCRDs", name, "the bundle has no such CRD; add it, or remove the name")
    for rule in items(webhook.get("rules")) if kind != _CONVERSION else ():
        groups = [text(each) for each in rule.get("apiGroups") or ()]
        if found := next((each for each in groups if each in _OLM_GROUPS), ""):
            raise wrong("rules", found, "OLM allows no webhooks for this group; name the groups that the webhook needs")
        resources = {text(each).lower().removesuffix("s") for each in rule.get("resources") or ()}
        if _ADMISSION_GROUP in groups and resources & {"*", *(each.lower() for each in _CONFIGURATIONS.values())}:
            raise wrong("rules", _ADMISSION_GROUP, "OLM allows no webhooks for webhook configurations; remove the rule")


def _converted(webhook: JSONObject) -> list[str]:
    """Return the CRDs whose objects a webhook converts."""
    if webhook.get("type") != _CONVERSION:
        return []
    return [text(each) for each in webhook.get("conversionCRDs") or ()]


# ---- accounts and permissions


def _accounts(bundle: InstallableBundle, placement: Placement) -> Iterator[JSONObject]:
    """Yield the ServiceAccounts that permissions name. Each namespace has the account `default` already."""
    granted = [*items(bundle.strategy.get("permissions")), *items(bundle.strategy.get("clusterPermissions"))]
    for name in sorted({_account(each) for each in granted} - {"default"}):
        metadata = {"name": name, "namespace": placement.namespace}
        yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def _account(permission: JSONObject) -> str:
    return text(permission.get("serviceAccountName")) or "default"


def _permissions(bundle: InstallableBundle, placement: Placement) -> Iterator[JSONObject]:
    """Yield roles and their bindings. Permissions for namespaces are for all of them if the operator works in all."""
    within = items(bundle.strategy.get("permissions"))
    for each in items(bundle.strategy.get("clusterPermissions")):
        yield from _granted(bundle, placement, each, None)
    for each in within:
        if not placement.targets:
            everywhere = {**each, "rules": [*items(each.get("rules")), _SEES_NAMESPACES]}
            yield from _granted(bundle, placement, everywhere, None)
        for namespace in placement.targets:
            yield from _granted(bundle, placement, each, namespace)


def _granted(
    bundle: InstallableBundle, placement: Placement, permission: JSONObject, namespace: str | None
) -> Iterator[JSONObject]:
    account, kind = _account(permission), "Role" if namespace else "ClusterRole"
    rules = items(permission.get("rules"))
    digest = hashlib.sha256(json.dumps([account, rules, placement.namespace], sort_keys=True).encode()).hexdigest()[:10]
    name = _shortened(f"{bundle.name}-{account}", digest)
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    api_version = f"{_RBAC}/v1"
    yield {"apiVersion": api_version, "kind": kind, "metadata": metadata, "rules": rules}
    yield {
        "apiVersion": api_version,
        "kind": f"{kind}Binding",
        "metadata": dict(metadata),
        "roleRef": {"apiGroup": _RBAC, "kind": kind, "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": placement.namespace}],
    }


# ---- Deployments


def _deployment(
    bundle: InstallableBundle, described: JSONObject, placement: Placement, *, has_webhooks: bool
) -> JSONObject:
    spec, name = deepcopy(mapping(described.get("spec"))), text(described["name"])
    template = spec.setdefault("template", {})
    metadata = template["metadata"] = mapping(template.get("metadata"))
    metadata["annotations"] = {
        **bundle.annotations,
        **mapping(metadata.get("annotations")),
        TARGETS: ",".join(placement.targets),
        _OPERATOR_NAMESPACE: placement.namespace,
    }
    spec["revisionHistoryLimit"] = 1
    if has_webhooks:
        secret = secret_name(name)
        metadata["annotations"][CERTIFICATE_DIGEST] = placement.digests.get(secret, "")
        _mount_certificates(mapping(template.get("spec")), secret)
    labels = mapping(described.get("label"))
    own = {"name": name, "namespace": placement.namespace, **({"labels": labels} if labels else {})}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": own, "spec": spec}


def _mount_certificates(pod: JSONObject, secret: str) -> None:
    """Mount the certificate at OLM's paths, instead of what the Pod mounts there."""
    paths = {path for path, _, _ in _MOUNTS.values()}
    containers = items(pod.get("containers"))
    replaced = {
        text(mount.get("name"))
        for container in containers
        for mount in items(container.get("volumeMounts"))
        if mount.get("mountPath") in paths
    } | set(_MOUNTS)
    pod["volumes"] = [each for each in items(pod.get("volumes")) if each.get("name") not in replaced]
    for name, (_, certificate, key) in _MOUNTS.items():
        files = [{"key": "tls.crt", "path": certificate}, {"key": "tls.key", "path": key}]
        pod["volumes"].append({"name": name, "secret": {"secretName": secret, "items": files}})
    for container in containers:
        kept = [each for each in items(container.get("volumeMounts")) if each.get("name") not in replaced]
        container["volumeMounts"] = [
            *kept,
            *({"name": name, "mountPath": path} for name, (path, *_) in _MOUNTS.items()),
        ]


# ---- webhooks


def _services(bundle: InstallableBundle, placement: Placement) -> Iterator[JSONObject]:
    for deployment in bundle.deployments:
        name = text(deployment["name"])
        ports = {_port(each): each for each in bundle.webhooks if deployment_of(each) == name}
        if not ports:
            continue
        labels = mapping(mapping(mapping(deployment.get("spec")).get("selector")).get("matchLabels"))
        shown = [
            {"name": str(port), "port": port, "targetPort": each.get("targetPort") or port}
            for port, each in sorted(ports.items())
        ]
        metadata = {"name": service_name(name), "namespace": placement.namespace}
        spec = {"ports": shown, "selector": labels}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}


def _port(webhook: JSONObject) -> int:
    return int(webhook.get("containerPort") or _HTTPS)


def _configuration(webhook: JSONObject, placement: Placement) -> JSONObject:
    kind, name = _CONFIGURATIONS[webhook["type"]], text(webhook["generateName"]).removesuffix("-")
    own: JSONObject = {key: webhook[key] for key in _OF_WEBHOOK if webhook.get(key) is not None}
    if webhook.get("reinvocationPolicy") and kind == "MutatingWebhookConfiguration":
        own["reinvocationPolicy"] = webhook["reinvocationPolicy"]
    if placement.targets:
        named = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": list(placement.targets)}
        own["namespaceSelector"] = {"matchExpressions": [named]}
    own |= {"name": name, "clientConfig": _client(webhook, placement)}
    return {
        "apiVersion": f"{_ADMISSION_GROUP}/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [own],
    }


def _client(webhook: JSONObject, placement: Placement, path: str = "") -> JSONObject:
    deployment = deployment_of(webhook)
    service: JSONObject = {"name": service_name(deployment), "namespace": placement.namespace, "port": _port(webhook)}
    if found := text(webhook.get("webhookPath")) or path:
        service["path"] = found
    authorities = placement.bundles.get(secret_name(deployment), b"")
    return {"service": service, **({"caBundle": b64encode(authorities).decode()} if authorities else {})}


def _crd(bundle: InstallableBundle, crd: JSONObject, placement: Placement) -> JSONObject:
    found = deepcopy(crd)
    found.pop("status", None)
    name = found["metadata"]["name"]
    webhook = next((each for each in bundle.webhooks if name in _converted(each)), None)
    if webhook is None:
        return found
    if found["spec"].get("preserveUnknownFields"):
        raise ConfigError(
            f"{bundle.name}: CRD {name}: spec.preserveUnknownFields is true, so the API server does not call its "
            "conversion webhook; remove the field"
        )
    versions = webhook.get("admissionReviewVersions")
    converter = {"clientConfig": _client(webhook, placement, "/"), "conversionReviewVersions": versions}
    found["spec"]["conversion"] = {"strategy": "Webhook", "webhook": converter}
    return found


# ---- other objects


def _others(bundle: InstallableBundle, placement: Placement) -> Iterator[JSONObject]:
    """Yield the other manifests, in the namespace of the operator if they have one."""
    for each in bundle.others:
        found = deepcopy(each)
        found["metadata"].pop("namespace", None)
        if found["kind"] not in _CLUSTER_KINDS:
            found["metadata"]["namespace"] = placement.namespace
        yield found
