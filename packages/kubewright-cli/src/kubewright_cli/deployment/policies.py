"""Whether the API server enforces the admission policies of an operator, and those of local runs that have ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Final

from kubewright.apis.admissionregistration.v1 import ValidatingAdmissionPolicy
from kubewright.client import Client, PartialObjectMetadata
from kubewright.machinery.errors import ConfigError, Forbidden, NotFound
from kubewright.policies._local_registration import KINDS
from kubewright.webhooks._local_objects import ended_process, local_prefix
from kubewright_cli.deployment.finding import Finding
from kubewright_cli.deployment.objects import Objects
from kubewright_cli.manifests import Manifests, policies

_DEPLOY: Final = "run `kubewright deploy`"
UPGRADE: Final = "upgrade the cluster (ValidatingAdmissionPolicy: 1.30, MutatingAdmissionPolicy: 1.36)"
"""What to do about policies that a cluster does not serve."""
_CORRECT: Final = "correct the expression, or the type that it is about"


async def policy_problems(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    """Yield the policies and bindings that do not exist or differ, and what the API server warns of.

    Raises APIError if they cannot be read.
    """
    objects = Objects(client)
    for document in manifests.objects():
        kind, name = document["kind"], document["metadata"]["name"]
        if kind not in policies.KINDS:
            continue
        subject = f"{kind.lower()}/{name}"
        try:
            differs = await objects.differs(document)
        except ConfigError:
            yield Finding(subject, f"the API server does not serve {kind}", UPGRADE)
            continue
        if differs is None:
            yield Finding(subject, "does not exist, so it is not enforced", _DEPLOY)
        elif differs:
            yield Finding(subject, "differs from the program's", _DEPLOY)
        elif kind == ValidatingAdmissionPolicy.__api__.kind:
            async for each in _warnings(client, subject, name):
                yield each


async def left_over_policies(client: Client, manifests: Manifests) -> AsyncGenerator[Finding]:
    """Yield what local runs that were killed on this host have left. The API server still enforces it.

    Nothing is known of runs on other hosts. Policies that this client may not list are left out.
    """
    prefix = local_prefix(manifests.program.manager.name)
    found: dict[int, list[str]] = {}
    for kind in KINDS:
        try:
            listed = await client.list(PartialObjectMetadata.of(kind))
        except (NotFound, Forbidden):  # not served, or not permitted
            continue
        for each in listed:
            process = ended_process(each.metadata.annotations)
            if process is not None and each.metadata.name.startswith(prefix):
                found.setdefault(process, []).append(f"{kind.__api__.kind.lower()}/{each.metadata.name}")
    for process, names in found.items():
        problem = f"were left by `kubewright run` (process {process}), which has ended, and are still enforced"
        remedy = f"delete them: `kubectl delete {' '.join(names)}`; the next `kubewright run` replaces them, too"
        yield Finding(f"policies {prefix}*", problem, remedy)


async def _warnings(client: Client, subject: str, name: str) -> AsyncGenerator[Finding]:
    """Yield what the API server found when it checked the types of the expressions."""
    policy = await client.get_or_none(ValidatingAdmissionPolicy, name)
    checking = policy.status.type_checking if policy is not None else None
    for each in checking.expression_warnings if checking is not None else ():
        text = " ".join(each.warning.split())
        yield Finding(subject, f"the API server warns of {each.field_ref}: {text}", _CORRECT)
