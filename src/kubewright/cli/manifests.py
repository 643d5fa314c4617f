"""The files that `kubewright generate` writes: what a cluster has to hold for an operator to work.

Names and layout are kubebuilder's, so that what people know of its projects holds here.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubewright.cli.project import Project
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.models import rbac
from kubewright.models.crd import custom_resource_definitions

_RBAC = "rbac.authorization.k8s.io"


def manifests(project: Project) -> Iterator[tuple[Path, str]]:
    """Each file's path, and what is in it."""
    crd, folder = project.root / "config" / "crd" / "bases", project.root / "config" / "rbac"
    for definition in custom_resource_definitions(project.kinds):
        spec = definition["spec"]
        yield crd / f"{spec['group']}_{spec['names']['plural']}.yaml", yaml.dump(definition)
    account = f"{project.settings.name}-controller-manager"
    namespace = f"{project.settings.name}-system"
    manager, election = f"{project.settings.name}-manager-role", f"{project.settings.name}-leader-election-role"
    subjects = [{"kind": "ServiceAccount", "name": account, "namespace": namespace}]
    yield folder / "service_account.yaml", yaml.dump(_document("v1", "ServiceAccount", account, namespace))
    yield folder / "role.yaml", yaml.dump(rbac.cluster_role(manager, project.manager.rbac_rules()))
    yield folder / "role_binding.yaml", yaml.dump(_binding("ClusterRole", manager, None, subjects))
    rules = project.manager.leader_election_rules()
    yield folder / "leader_election_role.yaml", yaml.dump(rbac.role(election, namespace, rules))
    yield folder / "leader_election_role_binding.yaml", yaml.dump(_binding("Role", election, namespace, subjects))
    auth, reader = f"{project.settings.name}-metrics-auth-role", f"{project.settings.name}-metrics-reader"
    yield folder / "metrics_auth_role.yaml", yaml.dump(rbac.cluster_role(auth, project.manager.metrics_auth_rules()))
    yield folder / "metrics_auth_role_binding.yaml", yaml.dump(_binding("ClusterRole", auth, None, subjects))
    rules = project.manager.metrics_reader_rules()
    yield folder / "metrics_reader_role.yaml", yaml.dump(rbac.cluster_role(reader, rules))


def _document(api_version: str, kind: str, name: str, namespace: str | None, **parts: Any) -> JSONObject:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **parts}


def _binding(kind: str, role: str, namespace: str | None, subjects: list[dict[str, str]]) -> JSONObject:
    reference = {"apiGroup": _RBAC, "kind": kind, "name": role}
    name = f"{role}binding"
    return _document(f"{_RBAC}/v1", f"{kind}Binding", name, namespace, roleRef=reference, subjects=subjects)
