"""The folder `policy`: the admission policies of a program, and their bindings.

They need nothing of the manager: the API server evaluates them. Their names are unique in a cluster, so they have the
prefix of the deployment.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright.models import codec
from kubewright_cli.manifests.names import Names
from kubewright_cli.manifests.program import Program

FOLDER: Final = "policy"

_GROUP: Final = "admissionregistration.k8s.io"
_POLICIES: Final = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
KINDS: Final = frozenset({*_POLICIES, *(f"{each}Binding" for each in _POLICIES)})
"""The kinds of the documents."""

REFERENCES: Final[JSONObject] = {
    "nameReference": [
        {
            "kind": kind,
            "group": _GROUP,
            "fieldSpecs": [{"kind": f"{kind}Binding", "group": _GROUP, "path": "spec/policyName"}],
        }
        for kind in _POLICIES
    ]
}
"""The references that kustomize does not follow without a configuration."""

_PATH: Final = "/metadata/namespace"
CLUSTER_SCOPED: Final[JSONObject] = {
    "apiVersion": "builtin",
    "kind": "PatchTransformer",
    "metadata": {"name": "policies-have-no-namespace"},
    "patch": f'[{{"op": "add", "path": "{_PATH}", "value": ""}}, {{"op": "remove", "path": "{_PATH}"}}]',
    "target": {"group": _GROUP, "kind": "(Validating|Mutating)AdmissionPolicy(Binding)?"},
}
"""Removes the namespace that kustomize adds to kinds that it does not know. Adds it first: it need not be there."""


def documents(program: Program, names: Names) -> dict[str, list[JSONObject]]:
    """Return the policies and bindings by file; none if the program has no policies."""
    if not program.manager.policies:
        return {}
    from kubewright.policies import policy_documents  # only for programs with policies

    files: dict[str, list[JSONObject]] = {}
    for each in policy_documents(program.manager.policies):
        document = codec.to_dict(each)
        document.pop("status", None)
        document["metadata"]["name"] = names.of(each.metadata.name)
        spec = document["spec"]
        if "policyName" in spec:
            spec["policyName"] = names.of(spec["policyName"])
        files.setdefault("mutating_policies" if each.kind.startswith("Mutating") else "validating_policies", []).append(
            document
        )
    return {name: files[name] for name in sorted(files)}
