"""A bundle of the shape that operator-sdk makes for a Go operator: two containers, metrics, leader election."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.olm.bundle import LABELS

SCHEMA: JSONObject = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer", "minimum": 1}, "image": {"type": "string"}},
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


class ForeignBundle:
    """A bundle with unique names, in `folder`. Change its documents, and write it."""

    def __init__(self, word: str = "") -> None:
        word = word or secrets.token_hex(3)
        self.package = f"cached-{word}"
        self.group = f"c{word}.test"
        self.namespace = f"{self.package}-system"
        self.deployment = f"{self.package}-controller-manager"
        self.crd_name = f"caches.{self.group}"
        self.version = "0.1.0"
        self.schema = deepcopy(SCHEMA)
        self.modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
        self.csv_spec: dict[str, Any] = {}
        self.annotations: dict[str, str] = {}
        self.dependencies: list[JSONObject] = []
        self.properties: list[JSONObject] = []
        self.webhooks: list[JSONObject] = []
        self.others = [self._metrics(), self._reader(), self._settings()]
        self.account = self.deployment

    @property
    def name(self) -> str:
        return f"{self.package}.v{self.version}"

    def write(self, folder: Path) -> Path:
        """Write the bundle to an empty folder, and return the folder."""
        documents = [self._csv(), self._crd(), *self.others]
        (folder / "manifests").mkdir(parents=True)
        (folder / "metadata").mkdir()
        for place, each in enumerate(documents):
            (folder / f"manifests/{place}-{each['kind'].lower()}.yaml").write_text(yaml.dump(each))
        self._write_metadata(folder, "annotations", {"annotations": self._labels()})
        if self.dependencies:
            self._write_metadata(folder, "dependencies", {"dependencies": self.dependencies})
        if self.properties:
            self._write_metadata(folder, "properties", {"properties": self.properties})
        return folder

    def _write_metadata(self, folder: Path, name: str, content: JSONObject) -> None:
        (folder / f"metadata/{name}.yaml").write_text(yaml.dump(content))

    def _labels(self) -> Mapping[str, str]:
        return {
            f"{LABELS}mediatype.v1": "registry+v1",
            f"{LABELS}manifests.v1": "manifests/",
            f"{LABELS}metadata.v1": "metadata/",
            f"{LABELS}package.v1": self.package,
            f"{LABELS}channels.v1": "alpha",
        }

    def _csv(self) -> JSONObject:
        kinds = {"owned": [{"name": self.crd_name, "version": "v1alpha1", "kind": "Cache", "displayName": "Cache"}]}
        example = {"apiVersion": f"{self.group}/v1alpha1", "kind": "Cache", "metadata": {"name": "sample"}}
        annotations = {"alm-examples": json.dumps([example])}
        spec: JSONObject = {
            "displayName": "Cache",
            "description": "Runs caches.",
            "version": self.version,
            "provider": {"name": "Somebody"},
            "installModes": [{"type": each, "supported": True} for each in self.modes],
            "install": {"strategy": "deployment", "spec": self._strategy()},
            "customresourcedefinitions": kinds,
            "webhookdefinitions": self.webhooks,
            **self.csv_spec,
        }
        metadata = {"name": self.name, "annotations": {**annotations, **self.annotations}}
        return {
            "apiVersion": "operators.coreos.com/v1alpha1",
            "kind": "ClusterServiceVersion",
            "metadata": metadata,
            "spec": spec,
        }

    def _strategy(self) -> JSONObject:
        leases: Sequence[JSONObject] = [
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "create", "update"]}
        ]
        caches = [{"apiGroups": [self.group], "resources": ["caches", "caches/status"], "verbs": ["*"]}]
        reviews = [{"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews"], "verbs": ["create"]}]
        return {
            "deployments": [{"name": self.deployment, "label": {"control-plane": "manager"}, "spec": self._pods()}],
            "permissions": [{"serviceAccountName": self.account, "rules": [*leases, *caches]}],
            "clusterPermissions": [{"serviceAccountName": self.account, "rules": reviews}],
        }

    def _pods(self) -> JSONObject:
        labels = {"control-plane": self.package}
        source = {"fieldRef": {"fieldPath": "metadata.annotations['olm.targetNamespaces']"}}
        manager = {
            "name": "manager",
            "image": f"registry.test/{self.package}:{self.version}",
            "args": ["--leader-elect"],
            "env": [{"name": "WATCH_NAMESPACE", "valueFrom": source}],
        }
        proxy = {"name": "kube-rbac-proxy", "image": "registry.test/proxy:v0.8.0", "args": ["--v=10"]}
        pod = {"serviceAccountName": self.account, "containers": [proxy, manager]}
        template = {"metadata": {"labels": labels}, "spec": pod}
        return {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}

    def _crd(self) -> JSONObject:
        version: JSONObject = {
            "name": "v1alpha1",
            "served": True,
            "storage": True,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": self.schema},
        }
        names = {"kind": "Cache", "listKind": "CacheList", "plural": "caches", "singular": "cache"}
        spec: JSONObject = {"group": self.group, "names": names, "scope": "Namespaced", "versions": [version]}
        return {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.crd_name},
            "spec": spec,
        }

    def _metrics(self) -> JSONObject:
        ports = [{"name": "https", "port": 8443, "targetPort": 8443}]
        spec = {"ports": ports, "selector": {"control-plane": self.package}}
        return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": f"{self.package}-metrics"}, "spec": spec}

    def _reader(self) -> JSONObject:
        rules = [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]
        metadata = {"name": f"{self.package}-metrics-reader"}
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": metadata,
            "rules": rules,
        }

    def _settings(self) -> JSONObject:
        metadata = {"name": f"{self.package}-manager-config"}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"level": "info"}}
