"""The ClusterServiceVersion of a bundle: how OLM runs the operator, and what people read about it.

OLM creates the ServiceAccount, the roles, the Deployment, and the configurations, the Service and the certificate of
the webhooks itself, from this document. It sets the annotation `olm.targetNamespaces` on the Pods to the namespaces
that the operator works in, so the Deployment reads the flag `--namespace` from there.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, CustomResource, Object, PolicyRule, cluster_role
from kubewright.models._values import plain
from kubewright.webhooks import Conversion
from kubewright_cli.manifests import workload
from kubewright_cli.manifests.chart.version import semantic
from kubewright_cli.manifests.manifests import Manifests
from kubewright_cli.manifests.names import MANAGER, Names
from kubewright_cli.manifests.olmsettings import INSTALL_MODES, InstallMode, Link, Person
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.manifests.webhooks import WebhookDeployment
from kubewright_cli.olm.descriptors import descriptors, words
from kubewright_cli.olm.semver import Range

API_VERSION: Final = "operators.coreos.com/v1alpha1"
KIND: Final = "ClusterServiceVersion"
CERTIFICATES: Final = "/tmp/k8s-webhook-server/serving-certs"
"""Where OLM mounts the certificate of the webhooks."""
RELATED_IMAGE: Final = "RELATED_IMAGE_"
"""The start of the names of environment variables with images that the operator deploys."""
_TARGETS: Final = {
    "name": "WATCH_NAMESPACE",
    "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}},
}
_MEDIA_TYPES: Final = {
    ".gif": "image/gif",
    ".jpeg": "image/jpeg",
    ".jpg": "image/jpeg",
    ".png": "image/png",
    ".svg": "image/svg+xml",
}
_FROM_CONFIGURATION: Final = (
    "rules",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "sideEffects",
    "timeoutSeconds",
    "admissionReviewVersions",
    "reinvocationPolicy",
)
_TYPES: Final = {
    "MutatingWebhookConfiguration": "MutatingAdmissionWebhook",
    "ValidatingWebhookConfiguration": "ValidatingAdmissionWebhook",
}
_HTTPS: Final = 443


def package_of(settings: Settings) -> str:
    """Return the name of the package."""
    return settings.bundle.package or settings.name


def name_of(settings: Settings) -> str:
    """Return the name of the ClusterServiceVersion, and so of the bundle: `<package>.v<version>`."""
    return f"{package_of(settings)}.v{semantic(settings.version).replace('+', '-')}"


def service_version(
    manifests: Manifests, root: Path, samples: Sequence[JSONObject], capability: str = ""
) -> JSONObject:
    """Return the document. `samples` are the objects in `alm-examples`, and `capability` is the capability level; a
    document without one has no annotation for it.

    Raises ConfigError if a file that the settings name cannot be read.
    """
    program, settings = manifests.program, manifests.settings
    bundle = settings.bundle
    _check_upgrades(settings)
    modes = install_modes(program, settings)
    spec: JSONObject = {
        "displayName": bundle.display_name or words(settings.name),
        "description": _description(settings, root),
        "version": semantic(settings.version),
        "maturity": bundle.maturity,
        "minKubeVersion": bundle.min_kube_version,
        "keywords": list(bundle.keywords or settings.keywords),
        "maintainers": [_named(each) for each in _maintainers(settings)],
        "provider": _named(provider_of(settings)),
        "links": [_named(each) for each in bundle.links or [Link(name=k, url=v) for k, v in settings.urls.items()]],
        "icon": [_icon(root / bundle.icon)] if bundle.icon else [],
        "installModes": [{"type": each, "supported": each in modes} for each in INSTALL_MODES],
        "install": {"strategy": "deployment", "spec": _strategy(program, settings)},
        "customresourcedefinitions": _stated(
            {
                "owned": list(_owned(program)),
                "required": [_required(each) for each in required_kinds(program, settings)],
            }
        ),
        "webhookdefinitions": list(_webhooks(program, settings)),
        "relatedImages": [{"name": name, "image": image} for name, image in related_images(settings).items()],
        "replaces": bundle.replaces,
        "skips": list(bundle.skips),
    }
    metadata: JSONObject = {
        "name": name_of(settings),
        "annotations": _annotations(settings, samples, capability),
        "labels": bundle.labels,
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": _stated(metadata), "spec": _stated(spec)}


def _check_upgrades(settings: Settings) -> None:
    """Raise ConfigError if the settings describe impossible upgrades."""
    bundle, name = settings.bundle, name_of(settings)
    for setting, replaced in (("replaces", (bundle.replaces,)), ("skips", bundle.skips)):
        if name in replaced:
            raise ConfigError(
                f'tool.kubewright.bundle.{setting}: "{name}" is this version itself; name an earlier one, or raise '
                "version in [project]"
            )
    if bundle.skip_range:
        try:
            Range.parse(bundle.skip_range)
        except ValueError as error:
            raise ConfigError(
                f'tool.kubewright.bundle.skip-range: {error}; write a range such as ">=1.0.0 <1.2.0"'
            ) from error


def install_modes(program: Program, settings: Settings) -> Sequence[InstallMode]:
    """Return the supported install modes: of the settings, or else those in which the program works.

    OLM allows only AllNamespaces for conversion webhooks, because CRDs are cluster-wide. A controller of a
    cluster-scoped kind works for all namespaces, too.
    """
    if settings.bundle.install_modes:
        return settings.bundle.install_modes
    converts = any(isinstance(each, Conversion) for each in program.webhooks)
    if converts or any(not each.kind.__api__.namespaced for each in program.manager.controllers):
        return ("AllNamespaces",)
    if settings.watch_namespaces == "own":
        return ("OwnNamespace", "SingleNamespace")
    if settings.watch_namespaces != "all" or program.namespaces:
        return ("OwnNamespace", "SingleNamespace", "MultiNamespace")
    return INSTALL_MODES


def required_kinds(program: Program, settings: Settings) -> list[APIResource]:
    """Return the third-party kinds that the controllers read or write, without the optional ones."""
    own = {(each.group, each.kind) for each in program.kinds}
    found = {
        (api.group, api.kind): api
        for api in (kind.__api__ for kind in _used(program) if not _is_built_in(kind))
        if (api.group, api.kind) not in own and f"{api.plural}.{api.group}" not in settings.bundle.optional_kinds
    }
    return [found[key] for key in sorted(found)]


def related_images(settings: Settings) -> dict[str, str]:
    """Return the images that the operator needs, by name: its own, those of its variables `RELATED_IMAGE_*`, and those
    of the settings.
    """
    variables = {
        name.removeprefix(RELATED_IMAGE).lower().replace("_", "-"): value
        for name, value in settings.env.items()
        if name.startswith(RELATED_IMAGE) and isinstance(value, str)
    }
    return {"manager": settings.image, **variables, **settings.bundle.related_images}


def complete_names(settings: Settings) -> Names:
    """Return the names of the objects in a cluster."""
    return Names.with_prefix(settings.name_prefix, settings.namespace)


def webhook_deployment(program: Program, settings: Settings) -> WebhookDeployment:
    """Return the webhooks without a certificate, which OLM makes."""
    own = msgspec.structs.replace(settings, webhook_certificate="", webhook_ca_bundle="")
    return WebhookDeployment.of(program, own, complete_names(settings))


def _stated(structure: JSONObject) -> JSONObject:
    return {key: value for key, value in structure.items() if value not in (None, "", [], {})}


def _annotations(settings: Settings, samples: Sequence[JSONObject], capability: str) -> JSONObject:
    bundle = settings.bundle
    own = {
        "alm-examples": json.dumps(list(samples), indent=2, ensure_ascii=False),
        "capabilities": capability,
        "categories": ", ".join(bundle.categories),
        "containerImage": settings.image,
        "description": settings.description,
        "olm.skipRange": bundle.skip_range,
        "operatorframework.io/suggested-namespace": settings.namespace,
        "repository": bundle.repository,
        "support": bundle.support,
    }
    return {**_stated(own), **bundle.annotations}


def _description(settings: Settings, root: Path) -> str:
    if not settings.bundle.description_file:
        return settings.description
    return _read(root / settings.bundle.description_file, "description-file").decode()


def _named(value: Person | Link) -> JSONObject:
    return _stated(plain(value))


def _maintainers(settings: Settings) -> list[Person]:
    stated = settings.bundle.maintainers or settings.maintainers or settings.authors
    return [each for each in stated if each.name and each.email]


def provider_of(settings: Settings) -> Link:
    """Return who publishes the operator."""
    people = settings.bundle.maintainers or settings.maintainers or settings.authors
    return settings.bundle.provider or Link(name=next((each.name for each in people if each.name), ""))


def _icon(path: Path) -> JSONObject:
    kind = _MEDIA_TYPES.get(path.suffix.lower())
    if kind is None:
        known = ", ".join(_MEDIA_TYPES)
        raise ConfigError(f'tool.kubewright.bundle.icon: "{path.name}" is not an image of a known type: {known}')
    return {"base64data": base64.b64encode(_read(path, "icon")).decode(), "mediatype": kind}


def _read(path: Path, setting: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"tool.kubewright.bundle.{setting}: {path}: {error.strerror}") from error


# ---- kinds


def _used(program: Program) -> Iterator[type[Object]]:
    for each in program.manager.controllers:
        yield from each.cached_kinds
        yield from each.writes


def _is_built_in(kind: type[Object]) -> bool:
    return kind.__module__.startswith("kubewright.")


def _owned(program: Program) -> Iterator[JSONObject]:
    for crd in program.crds:
        group, kind = crd["spec"]["group"], crd["spec"]["names"]["kind"]
        versions = {each["name"]: each for each in crd["spec"]["versions"] if each["served"]}
        for cls in program.classes:
            api = cls.__api__
            if (api.group, api.kind) == (group, kind) and api.version in versions:
                yield _owned_kind(program, cls, versions[api.version])


def _owned_kind(program: Program, cls: type[CustomResource], version: JSONObject) -> JSONObject:
    api = cls.__api__
    subresources: JSONObject = version.get("subresources") or {}
    scale: JSONObject = subresources.get("scale") or {}
    described = (version["schema"]["openAPIV3Schema"].get("description") or "").strip()
    found: JSONObject = {
        "name": f"{api.plural}.{api.group}",
        "version": api.version,
        "kind": api.kind,
        "displayName": words(api.kind),
        "description": " ".join(described.split()) or f"{words(api.kind)}.",
        "resources": _resources(program, cls),
        "specDescriptors": descriptors(cls, "spec", scale.get("specReplicasPath", "")),
        "statusDescriptors": descriptors(cls, "status"),
    }
    return _stated(found)


def _resources(program: Program, cls: type[CustomResource]) -> list[JSONObject]:
    api = cls.__api__
    kinds = {
        kind.__api__.gvk: kind
        for each in program.manager.controllers
        if (each.kind.__api__.group, each.kind.__api__.kind) == (api.group, api.kind)
        for kind in (*each.owns, *each.writes)
    }
    found: list[JSONObject] = []
    for kind in sorted(kinds.values(), key=lambda each: (each.__api__.kind, each.__api__.group)):
        name = "" if _is_built_in(kind) else f"{kind.__api__.plural}.{kind.__api__.group}"
        found.append({"kind": kind.__api__.kind, "name": name, "version": kind.__api__.api_version})
    return found


def _required(api: APIResource) -> JSONObject:
    return {
        "name": f"{api.plural}.{api.group}",
        "version": api.version,
        "kind": api.kind,
        "displayName": words(api.kind),
        "description": f"{words(api.kind)} of {api.group}, which the operator uses.",
    }


# ---- deployment, permissions, webhooks


def _strategy(program: Program, settings: Settings) -> JSONObject:
    names = complete_names(settings)
    deployment = _deployment(program, settings, names)
    within, cluster = program.rules_by_scope()
    if settings.metrics == "https":
        cluster = [*cluster, *program.manager.metrics_auth_rules()]
    if settings.leader_election:
        within = [*within, *program.manager.leader_election_rules()]
    return _stated(
        {
            "deployments": [deployment],
            "permissions": _permissions(names, within),
            "clusterPermissions": _permissions(names, cluster),
        }
    )


def _permissions(names: Names, rules: Sequence[PolicyRule]) -> list[JSONObject]:
    merged = cluster_role("", rules)["rules"]
    return [{"serviceAccountName": names.account, "rules": merged}] if merged else []


def _deployment(program: Program, settings: Settings, names: Names) -> JSONObject:
    own = msgspec.structs.replace(settings, watch_namespaces="all", webhook_certificate="")
    document = workload.documents(program, own, names)["manager"][-1]
    container = document["spec"]["template"]["spec"]["containers"][0]
    arguments = [each for each in container["args"] if not each.startswith(workload.WEBHOOK_PREFIX_FLAG)]
    if program.webhooks:
        arguments.append(f"--webhook-cert-path={CERTIFICATES}")
    arguments.append(f"--namespace=$({_TARGETS['name']})")
    container["args"] = arguments
    container["env"] = [*container.get("env", []), _TARGETS]
    labels = {**document["metadata"]["labels"], **settings.labels, **workload.own_labels(settings)}
    return {"name": document["metadata"]["name"], "label": labels, "spec": document["spec"]}


def _webhooks(program: Program, settings: Settings) -> Iterator[JSONObject]:
    if not program.webhooks:
        return
    deployment = webhook_deployment(program, settings)
    common = {"deploymentName": complete_names(settings).of(MANAGER), "targetPort": program.webhook_port}
    for configuration in deployment.configurations():
        for each in configuration["webhooks"]:
            service = each["clientConfig"]["service"]
            yield {
                "generateName": each["name"],
                "type": _TYPES[configuration["kind"]],
                **common,
                "containerPort": service.get("port", _HTTPS),
                "webhookPath": service["path"],
                **{key: each[key] for key in _FROM_CONFIGURATION if key in each},
            }
    conversions = deployment.conversions()
    for crd, each in conversions.items():
        webhook = each["spec"]["conversion"]["webhook"]
        yield {
            "generateName": f"c{crd}",
            "type": "ConversionWebhook",
            **common,
            "containerPort": _HTTPS,
            "webhookPath": webhook["clientConfig"]["service"]["path"],
            "sideEffects": "None",
            "admissionReviewVersions": webhook["conversionReviewVersions"],
            "conversionCRDs": [crd],
        }
