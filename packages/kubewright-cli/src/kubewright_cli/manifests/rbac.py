"""The folder `rbac`: the manager's ServiceAccount and roles, and roles for people.

File names and object names are kubebuilder's. `Names` decides between short and complete names.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.models import APIResource, PolicyRule, cluster_role, role
from kubewright_cli.manifests.names import Names
from kubewright_cli.manifests.program import Program
from kubewright_cli.manifests.settings import Settings

_GROUP: Final = "rbac.authorization.k8s.io"

MANAGER_ROLE: Final = "manager-role"
ELECTION_ROLE: Final = "leader-election-role"
METRICS_AUTH_ROLE: Final = "metrics-auth-role"
METRICS_READER: Final = "metrics-reader"

_HELPERS: Final = {
    "admin": ("*",),
    "editor": ("create", "delete", "get", "list", "patch", "update", "watch"),
    "viewer": ("get", "list", "watch"),
}


def documents(program: Program, settings: Settings, names: Names) -> dict[str, list[JSONObject]]:
    """Return the documents by file name, without `.yaml`."""
    files: dict[str, list[JSONObject]] = {"service_account": [account(names)]}
    roles = list(_manager_roles(program, settings, names))
    files["role"] = roles
    files["role_binding"] = [binding(each, names) for each in roles]
    if settings.leader_election:
        namespace = program.lease_namespace or names.namespace
        election = role(names.of(ELECTION_ROLE), namespace, program.manager.leader_election_rules())
        files["leader_election_role"] = [election]
        files["leader_election_role_binding"] = [binding(election, names)]
    if settings.metrics == "https":
        auth = cluster_role(names.of(METRICS_AUTH_ROLE), program.manager.metrics_auth_rules())
        reader = cluster_role(names.of(METRICS_READER), program.manager.metrics_reader_rules())
        files["metrics_auth_role"] = [auth]
        files["metrics_auth_role_binding"] = [binding(auth, names)]
        files["metrics_reader_role"] = [reader]
    if settings.rbac_helpers:
        files |= {f"{name.replace('-', '_')}": [each] for name, each in helpers(program.kinds, names)}
    return files


def account(names: Names) -> JSONObject:
    """Return the ServiceAccount of the manager."""
    metadata = {"name": names.account, "namespace": names.namespace}
    return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def binding(granted: JSONObject, names: Names) -> JSONObject:
    """Binds the manager's ServiceAccount to a Role in its namespace, or to a ClusterRole."""
    kind, metadata = granted["kind"], dict(granted["metadata"])
    metadata["name"] = f"{metadata['name']}binding"
    return {
        "apiVersion": f"{_GROUP}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": {"apiGroup": _GROUP, "kind": kind, "name": granted["metadata"]["name"]},
        "subjects": [{"kind": "ServiceAccount", "name": names.account, "namespace": names.namespace}],
    }


def _manager_roles(program: Program, settings: Settings, names: Names) -> Iterator[JSONObject]:
    """Yield one ClusterRole; or a Role in each namespace, and a ClusterRole for cluster-scoped resources."""
    namespaces = watched_namespaces(program, settings, names)
    if not namespaces:
        yield cluster_role(names.of(MANAGER_ROLE), program.rules())
        return
    within, cluster = program.rules_by_scope()
    for namespace in namespaces:
        yield role(names.of(MANAGER_ROLE), namespace, within)
    if cluster:
        yield cluster_role(names.of(MANAGER_ROLE), cluster)


def watched_namespaces(program: Program, settings: Settings, names: Names) -> Sequence[str]:
    """Return the namespaces that the manager watches; none if it watches all."""
    if settings.watch_namespaces == "all":
        return program.namespaces
    return (names.namespace,) if settings.watch_namespaces == "own" else settings.watch_namespaces


def helpers(kinds: Sequence[APIResource], names: Names) -> Iterator[tuple[str, JSONObject]]:
    """Yield the roles for people, by short name: administrators bind them, the operator does not use them."""
    for api in kinds:
        for who, verbs in _HELPERS.items():
            name = f"{helper_stem(api, kinds)}-{who}-role"
            rules = [PolicyRule(api_groups=[api.group], resources=[api.plural], verbs=list(verbs))]
            if "status" in api.subresources:
                rules.append(PolicyRule(api_groups=[api.group], resources=[f"{api.plural}/status"], verbs=["get"]))
            yield name, cluster_role(names.of(name), rules)


def helper_stem(api: APIResource, kinds: Sequence[APIResource]) -> str:
    """Return the kind in lower case, with its group if two groups have a kind of that name."""
    same = [each for each in kinds if each.kind == api.kind]
    return api.kind.lower() if len(same) == 1 else f"{api.group.replace('.', '-')}-{api.kind.lower()}"
