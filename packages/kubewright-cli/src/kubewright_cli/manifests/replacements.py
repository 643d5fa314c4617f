"""The folder `replacements`: transformers for names and namespaces in fields that kustomize does not complete.

Kustomize completes the names of objects and most references to them. It does not know flags, names in RBAC rules, DNS
names, and the annotations of cert-manager. `config/default` uses this folder, and so does an overlay that sets
`namePrefix` or `namespace`, because kustomize runs transformers only where a kustomization lists them.

The complete names end with the short names, so a prefix is what precedes the short name of an object of this operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.webhooks import AdmissionWebhook, ManagedCertificate, webhook_objects
from kubewright_cli.manifests import policies
from kubewright_cli.manifests.manifests import Files, Folders, Manifests
from kubewright_cli.manifests.metrics import MONITOR
from kubewright_cli.manifests.names import MANAGER, METRICS_SERVICE
from kubewright_cli.manifests.webhooks import (
    CERTIFICATE,
    CERTIFICATE_NAME,
    CERTIFICATE_ROLE,
    INJECT,
    ISSUER,
    ISSUER_NAME,
)
from kubewright_cli.manifests.workload import WEBHOOK_CERTIFICATE, WEBHOOK_PREFIX_FLAG

FOLDER: Final = "replacements"

_NAME: Final = "metadata.name"
_NAMESPACE: Final = "metadata.namespace"
_OBJECTS: Final = webhook_objects(())
_MANAGER: Final = {"kind": "Deployment", "name": MANAGER}
_CERTIFICATE: Final = {"kind": CERTIFICATE.kind, "name": CERTIFICATE_NAME}
_ISSUER: Final = {"kind": ISSUER.kind, "name": ISSUER_NAME}
_SERVICE: Final = {"kind": "Service", "name": _OBJECTS.service}
_ROLE: Final = {"kind": "Role", "name": CERTIFICATE_ROLE}


def documents(manifests: Manifests) -> Files:
    """Return the transformers by file; none if kustomize completes everything."""
    folders = manifests.folders
    files: Files = {}
    if found := [*_of_metrics(manifests), *_of_webhooks(manifests, folders)]:
        head = {"apiVersion": "builtin", "kind": "ReplacementTransformer", "metadata": {"name": "names-and-namespaces"}}
        files["names"] = [{**head, "replacements": found}]
    if folders[policies.FOLDER]:
        files["policy_namespace"] = [policies.CLUSTER_SCOPED]
    return files


def _of_metrics(manifests: Manifests) -> Iterator[JSONObject]:
    """Yield the name of the server by which a ServiceMonitor recognizes the manager's certificate."""
    if manifests.settings.metrics_certificate:
        service = {"kind": "Service", "name": METRICS_SERVICE}
        monitor, path = {"kind": "ServiceMonitor", "name": MONITOR}, "spec.endpoints.0.tlsConfig.serverName"
        yield _replacement(service, _NAME, [_target(monitor, path, part=(".", 0))])
        yield _replacement(service, _NAMESPACE, [_target(monitor, path, part=(".", 1))])


def _of_webhooks(manifests: Manifests, folders: Folders) -> Iterator[JSONObject]:
    if selected := list(_namespace_selectors(manifests, folders)):
        yield _replacement(_SERVICE, _NAMESPACE, selected)
    declared = manifests.program.manager.options.webhook_certificate
    if manifests.certificate_source == "cert-manager":
        yield from _of_cert_manager(manifests, folders)
    elif manifests.certificate_source == "manager" and isinstance(declared, ManagedCertificate):
        yield from _of_managed_certificate(manifests, folders)


def _namespace_selectors(manifests: Manifests, folders: Folders) -> Iterator[JSONObject]:
    """Yield where webhooks leave out the manager's namespace."""
    hooks = [each for each in manifests.program.webhooks if isinstance(each, AdmissionWebhook)]
    own = {each.name for each in hooks if each.registration.namespace_selector is None}
    for configuration in _configurations(folders):
        for each in configuration["webhooks"]:
            if "namespaceSelector" in each and each["name"] in own:
                path = f"webhooks.[name={each['name']}].namespaceSelector.matchExpressions.0.values.0"
                yield _target(_named(configuration), path)


def _of_managed_certificate(manifests: Manifests, folders: Folders) -> Iterator[JSONObject]:
    """Yield the names that a manager with a certificate of its own expects, and has permissions for."""
    secret = _OBJECTS.secret
    flag = f"spec.template.spec.containers.[name=manager].args.[={WEBHOOK_PREFIX_FLAG}{manifests.settings.name_prefix}]"
    targets = [_target(_MANAGER, flag, part=("=", 1))]
    for role in folders["rbac"]["webhook_certificate_role"]:
        for number, rule in enumerate(role["rules"]):
            path = f"rules.{number}.resourceNames.0"
            if rule["resources"] == ["secrets"] and "resourceNames" in rule:
                targets.append(_target(_named(role), path, part=(secret, 0)))
            for each in _configurations(folders):
                if rule["resources"] == [f"{each['kind'].lower()}s"]:
                    yield _replacement(_named(each), _NAME, [_target(_named(role), path)])
    yield _replacement(_ROLE, _NAME, targets, part=(CERTIFICATE_ROLE, 0))


def _of_cert_manager(manifests: Manifests, folders: Folders) -> Iterator[JSONObject]:
    """Yield the references to the Issuer, the Certificate, its Secret and its Service."""
    secret, dns_names = _OBJECTS.secret, [f"spec.dnsNames.{number}" for number in range(2)]
    volume = f"spec.template.spec.volumes.[name={WEBHOOK_CERTIFICATE}].secret.secretName"
    yield _replacement(_ISSUER, _NAME, [_target(_CERTIFICATE, "spec.issuerRef.name")])
    yield _replacement(
        _ISSUER,
        _NAME,
        [_target(_CERTIFICATE, "spec.secretName", part=(secret, 0)), _target(_MANAGER, volume, part=(secret, 0))],
        part=(ISSUER_NAME, 0),
    )
    yield _replacement(_SERVICE, _NAME, [_target(_CERTIFICATE, *dns_names, part=(".", 0))])
    yield _replacement(_SERVICE, _NAMESPACE, [_target(_CERTIFICATE, *dns_names, part=(".", 1))])
    injected = [_named(each) for each in (*_configurations(folders), *manifests.crd_patches.values())]
    annotation = f"metadata.annotations.[{INJECT}]"
    for field, place in ((_NAMESPACE, 0), (_NAME, 1)):
        yield _replacement(_CERTIFICATE, field, [_target(each, annotation, part=("/", place)) for each in injected])


def _configurations(folders: Folders) -> list[JSONObject]:
    return folders["webhook"].get("manifests", [])


def _named(document: JSONObject) -> JSONObject:
    """Return what selects an object, by its short name."""
    return {"kind": document["kind"], "name": document["metadata"]["name"]}


def _replacement(
    source: JSONObject, field: str, targets: Iterable[JSONObject], *, part: tuple[str, int] | None = None
) -> JSONObject:
    return {"source": {**source, "fieldPath": field, **_options(part)}, "targets": list(targets)}


def _target(select: JSONObject, *paths: str, part: tuple[str, int] | None = None) -> JSONObject:
    return {"select": select, "fieldPaths": list(paths), **_options(part)}


def _options(part: tuple[str, int] | None) -> JSONObject:
    """Return the options for a part of a value: what separates the parts, and the number of the part."""
    return {"options": {"delimiter": part[0], "index": part[1]}} if part is not None else {}
