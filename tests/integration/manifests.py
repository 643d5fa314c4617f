"""The golden projects of the generator, and a cluster that accepts their manifests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from pathlib import Path

import pytest

from integration.kubectl import KUBECTL, Kubectl
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.testing import Cluster, eventually

GOLDEN = Path(__file__).parents[1] / "golden" / "manifests"
PROJECTS = sorted(path.parent for path in GOLDEN.glob("*/pyproject.toml"))

needs_kubectl = pytest.mark.skipif(KUBECTL is None, reason="no kubectl on this machine; `make controlplane` builds it")
each_project = pytest.mark.parametrize("project", PROJECTS, ids=lambda path: path.name)


def installer(project: Path) -> list[JSONObject]:
    return list(yaml.load_all((project / "dist/install.yaml").read_text()))


def name(document: JSONObject) -> tuple[str, str, str]:
    metadata = document["metadata"]
    return document["kind"], metadata.get("namespace", ""), metadata["name"]


def by_name(documents: Iterable[JSONObject]) -> dict[tuple[str, str, str], JSONObject]:
    return {name(each): each for each in documents}


SERVICE_MONITORS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: servicemonitors.monitoring.coreos.com, annotations: {api-approved.kubernetes.io: unapproved}}
spec:
  group: monitoring.coreos.com
  names: {kind: ServiceMonitor, plural: servicemonitors}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [selector, endpoints]
            properties:
              selector: {type: object, properties: {matchLabels: {type: object, additionalProperties: {type: string}}}}
              endpoints:
                type: array
                items:
                  type: object
                  properties:
                    path: {type: string}
                    port: {type: string}
                    scheme: {type: string, enum: [http, https]}
                    bearerTokenFile: {type: string}
                    tlsConfig:
                      type: object
                      properties:
                        insecureSkipVerify: {type: boolean}
                        serverName: {type: string}
                        ca:
                          type: object
                          properties:
                            secret:
                              type: object
                              required: [key]
                              properties: {name: {type: string}, key: {type: string}}
"""
"""The CRD of the Prometheus operator, with the fields that the tests use."""


CERT_MANAGER = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: issuers.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Issuer, plural: issuers}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec: {type: object, properties: {selfSigned: {type: object}}}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: certificates.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: Certificate, plural: certificates}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [spec]
        properties:
          spec:
            type: object
            required: [secretName, issuerRef]
            properties:
              dnsNames: {type: array, items: {type: string}}
              secretName: {type: string}
              issuerRef: {type: object, required: [name], properties: {kind: {type: string}, name: {type: string}}}
"""
"""The CRDs of cert-manager, with the fields that the manifests use."""
OTHERS = f"{SERVICE_MONITORS}---{CERT_MANAGER}"


@pytest.fixture
async def kubectl(cluster: Cluster) -> AsyncIterator[Kubectl]:
    """kubectl of an administrator, in a cluster with the third-party kinds of the manifests."""
    kubectl = Kubectl(cluster.kubeconfig(), "")
    there = "servicemonitors" in await kubectl("get", "crds", "--output=name")
    if not there:
        await kubectl("create", "-f", "-", given=OTHERS)
    names = ("servicemonitors.monitoring.coreos.com", "issuers.cert-manager.io", "certificates.cert-manager.io")
    await kubectl("wait", "--for=condition=Established", *(f"crd/{each}" for each in names), "--timeout=120s")
    await eventually(kubectl, "get", ",".join(names), "--all-namespaces")  # discovery lists the kinds
    yield kubectl
    if not there:
        await kubectl("delete", "-f", "-", given=OTHERS)
