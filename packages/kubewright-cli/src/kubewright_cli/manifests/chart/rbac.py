"""Templates of RBAC: the rules come from the program, names and conditions from Helm values."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.models import cluster_role, role
from kubewright_cli.manifests import rbac
from kubewright_cli.manifests.chart.documents import NAMES, document, when
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests

_WATCHED: Final = '{{- $namespaces := include "chart.watchNamespaces" $ | fromJsonArray }}'
_ELECTS: Final = "$.Values.leaderElection.enabled"
_SECURE: Final = "and $.Values.metrics.enabled $.Values.metrics.secure"


def templates(manifests: Manifests) -> dict[str, str]:
    """Return the templates by path."""
    return {f"rbac/{name}.yaml": f"{HEADER}\n{text}" for name, text in _templates(manifests)}


def _templates(manifests: Manifests) -> Iterator[tuple[str, str]]:
    program = manifests.program
    manager = program.manager
    within, cluster = program.rules_by_scope()
    whole = cluster_role(NAMES.of(rbac.MANAGER_ROLE), program.rules())
    each = role(NAMES.of(rbac.MANAGER_ROLE), "{{ . }}", within)
    others = [cluster_role(NAMES.of(rbac.MANAGER_ROLE), cluster)] if cluster else []
    yield "role", _by_scope(whole, each, others)
    yield (
        "role_binding",
        _by_scope(rbac.binding(whole, NAMES), rbac.binding(each, NAMES), [rbac.binding(one, NAMES) for one in others]),
    )
    namespace = program.lease_namespace or NAMES.namespace
    election = role(NAMES.of(rbac.ELECTION_ROLE), namespace, manager.leader_election_rules())
    yield "leader_election_role", when(_ELECTS, document(election))
    yield "leader_election_role_binding", when(_ELECTS, document(rbac.binding(election, NAMES)))
    auth = cluster_role(NAMES.of(rbac.METRICS_AUTH_ROLE), manager.metrics_auth_rules())
    yield "metrics_auth_role", when(_SECURE, document(auth))
    yield "metrics_auth_role_binding", when(_SECURE, document(rbac.binding(auth, NAMES)))
    reader = cluster_role(NAMES.of(rbac.METRICS_READER), manager.metrics_reader_rules())
    yield "metrics_reader_role", when(_SECURE, document(reader))
    for name, helper in rbac.helpers(program.kinds, NAMES):
        yield name.replace("-", "_"), when("$.Values.rbac.helpers.enabled", document(helper))


def _by_scope(whole: JSONObject, each: JSONObject, others: list[JSONObject]) -> str:
    """Return one document for the whole cluster; or one in each namespace, and those for cluster-scoped resources."""
    rest = "".join(f"\n---\n{document(other)}" for other in others)
    return (
        f"{_WATCHED}\n{{{{- if $namespaces }}}}\n{{{{- range $namespaces }}}}\n---\n{document(each)}\n{{{{- end }}}}"
        f"{rest}\n{{{{- else }}}}\n{document(whole)}\n{{{{- end }}}}\n"
    )
