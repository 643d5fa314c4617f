"""The documents of a deployment: with short names for `config/`, and with complete names for a cluster."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec

from kubewright.machinery.json import JSONObject
from kubewright.manager import Manager
from kubewright.models import CustomResource
from kubewright_cli.manifests import metrics, policies, rbac, workload
from kubewright_cli.manifests.names import SHORT, Names
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import Settings
from kubewright_cli.manifests.webhooks import (
    CertificateSource,
    WebhookDeployment,
    certificate_source,
    converted,
)

Files: TypeAlias = dict[str, list[JSONObject]]
"""Documents by file, without `.yaml`."""
Folders: TypeAlias = dict[str, Files]
"""The same by folder, as in `config/`."""

_PLACEHOLDER: Final = "controller:latest"
"""The image in `config/`. The kustomization of `config/manager` replaces it."""

_ORDER: Final = (
    "Namespace",
    "CustomResourceDefinition",
    "ServiceAccount",
    "Role",
    "ClusterRole",
    "RoleBinding",
    "ClusterRoleBinding",
    "Service",
    "Deployment",
)
"""The order in which kinds are created, and kustomize prints them. Other kinds follow, by group."""
_LAST: Final = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""The kinds at the end."""


@dataclass(frozen=True, slots=True)
class Manifests:
    """The documents of a deployment."""

    program: Program
    settings: Settings

    def with_image(self, image: str) -> Manifests:
        """Return the same with another image."""
        return replace(self, settings=msgspec.structs.replace(self.settings, image=image))

    @property
    def crds(self) -> list[JSONObject]:
        """The CustomResourceDefinitions of the project, without the webhooks that convert their objects."""
        return list(self.program.crds)

    @property
    def certificate_source(self) -> CertificateSource | None:
        """Where the certificate of the webhooks comes from; None if there are none."""
        return certificate_source(self.program, self.settings)

    @property
    def webhooks(self) -> WebhookDeployment | None:
        """The webhooks, with complete names; None if there are none."""
        return self._webhooks(Names.with_prefix(self.settings.name_prefix, self.settings.namespace))

    def objects(self) -> list[JSONObject]:
        """Return the complete objects in the order of creation, as in `dist/install.yaml`. Delete them in reverse
        order.
        """
        folders = self._folders(Names.with_prefix(self.settings.name_prefix, self.settings.namespace))
        if self.webhooks is not None:
            folders["crd"] = crd_folder(converted(self.program.crds, self.webhooks.conversions()))
        found = [each for name in self.deployed for file in folders[name].values() for each in file]
        return sorted(found, key=_place)

    @property
    def folders(self) -> Folders:
        """The documents of `config/` with short names, without kustomizations."""
        return self.with_image(_PLACEHOLDER)._folders(self._short_names)

    @property
    def crd_patches(self) -> dict[str, JSONObject]:
        """The conversions of CRDs, by file in `config/default`, as patches with short names."""
        webhooks = self._webhooks(self._short_names)
        conversions = webhooks.conversions() if webhooks is not None else {}
        plurals = [name.partition(".")[0] for name in conversions]
        files = [
            plural if plurals.count(plural) == 1 else name for plural, name in zip(plurals, conversions, strict=True)
        ]
        patches = [_patch(name, each) for name, each in conversions.items()]
        return {f"webhook_in_{file}": patch for file, patch in zip(files, patches, strict=True)}

    @property
    def spans_namespaces(self) -> bool:
        """Whether some objects are in other namespaces than the manager's. Kustomize must not move them."""
        named = self.program.lease_namespace or self.program.namespaces
        return bool(named) or self.settings.watch_namespaces not in ("all", "own")

    @property
    def deployed(self) -> tuple[str, ...]:
        """The folders that `config/default` includes."""
        chosen = {"prometheus": self.settings.prometheus, "network-policy": self.settings.network_policy}
        return tuple(name for name, files in self.folders.items() if files and chosen.get(name, True))

    @property
    def _short_names(self) -> Names:
        return Names.with_prefix("", self.settings.namespace) if self.spans_namespaces else SHORT

    def _webhooks(self, names: Names) -> WebhookDeployment | None:
        return WebhookDeployment.of(self.program, self.settings, names) if self.program.webhooks else None

    def _folders(self, names: Names) -> Folders:
        program, settings = self.program, self.settings
        folders: Folders = {
            "rbac": rbac.documents(program, settings, names),
            "manager": workload.documents(program, settings, names),
            "webhook": {},
            "certmanager": {},
            policies.FOLDER: policies.documents(program, names),
            "default": {},
            "prometheus": {},
            "network-policy": {},
        }
        if settings.metrics != "off":
            folders["default"] = {"metrics_service": [metrics.service(settings, names)]}
            folders["prometheus"] = {"monitor": [metrics.monitor(settings, names)]}
            folders["network-policy"] = {"allow-metrics-traffic": [metrics.policy(settings, names)]}
        if (webhooks := self._webhooks(names)) is not None:
            self._add_webhooks(folders, webhooks)
        for files in folders.values():
            for documents in files.values():
                for each in documents:
                    self._label(each)
        return {"crd": crd_folder(program.crds), **folders}

    def _add_webhooks(self, folders: Folders, webhooks: WebhookDeployment) -> None:
        if configurations := webhooks.configurations():
            folders["webhook"]["manifests"] = configurations
        folders["webhook"]["service"] = [webhooks.service()]
        folders["network-policy"]["allow-webhook-traffic"] = [webhooks.policy()]
        source = self.certificate_source
        if source == "cert-manager":
            folders["certmanager"] = {"issuer": [webhooks.issuer()], "certificate-webhook": [webhooks.certificate()]}
        elif source == "manager" and (roles := webhooks.roles()):
            folders["rbac"]["webhook_certificate_role"] = roles
            folders["rbac"]["webhook_certificate_role_binding"] = [rbac.binding(each, webhooks.names) for each in roles]

    def _label(self, document: JSONObject) -> None:
        metadata = document["metadata"]
        metadata["labels"] = {
            **metadata.get("labels", {}),
            **self.settings.labels,
            **workload.own_labels(self.settings),
        }
        if self.settings.annotations:
            metadata["annotations"] = {**self.settings.annotations, **metadata.get("annotations", {})}


def crd_folder(crds: Iterable[JSONObject]) -> Files:
    """Return the folder `crd`."""
    return {f"bases/{crd['spec']['group']}_{crd['spec']['names']['plural']}": [crd] for crd in crds}


def render(manager: Manager, kinds: Iterable[type[CustomResource]], settings: Settings) -> Manifests:
    """Return the manifests of `manager`, deployed as in `settings`. `kinds` are the project's own, in all versions.

    Raises ModelError for kinds that an API server would reject, and ConfigError for webhooks without a certificate.
    """
    manifests = Manifests(Program.of(manager, kinds), settings)
    certificate_source(manifests.program, settings)
    return manifests


def _patch(crd: str, addition: JSONObject) -> JSONObject:
    """Return a patch of a CRD for kustomize."""
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    return {**head, **addition, "metadata": {"name": crd, **addition.get("metadata", {})}}


def _place(document: JSONObject) -> tuple[int, str, str, str, str]:
    kind, metadata = document["kind"], document["metadata"]
    place = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    place += 1 + _LAST.index(kind) if kind in _LAST else 0
    return place, document["apiVersion"], kind, metadata.get("namespace", ""), metadata["name"]
