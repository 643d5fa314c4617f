"""Registers the policies of one run with an API server; see `LocalPolicies`.

An API server uses policies about a second after they were written. So a run registers two more, which concern an object
that only this run sends, as a dry run. When the API server evaluates them, it evaluates all that were written before.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.apis.admissionregistration.v1 import (
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubewright.apis.core.v1 import ConfigMap
from kubewright.client._client import Client
from kubewright.machinery.errors import APIError, ConfigError, Forbidden, Invalid, NotFound
from kubewright.models import Object
from kubewright.models._meta import LabelSelector, ObjectMeta
from kubewright.policies._declaration import MutatingPolicy, Policy, ValidatingPolicy
from kubewright.policies._documents import PolicyDocument, policy_documents
from kubewright.policies._expressions import ApplyConfiguration, Validation
from kubewright.policies._local import LocalPolicies
from kubewright.webhooks._local_objects import (
    PROBE_LABEL,
    PROBE_PREFIX,
    REGISTERED_WITHIN,
    RUN,
    answers_to,
    delete_own,
    deregister,
    local_prefix,
    of_run,
    registrar,
)

_EVALUATED: Final = "the policies of this run are evaluated"
_PROBE: Final = "probe.kubewright.dev"
KINDS: Final[Sequence[type[PolicyDocument]]] = (
    ValidatingAdmissionPolicyBinding,
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    MutatingAdmissionPolicy,
)
"""What a run registers, in the order of deletion."""


class LocalPolicyRegistration:
    """The registration of one run."""

    def __init__(self, local: LocalPolicies, policies: Sequence[Policy], name: str) -> None:
        """`name` is that of the manager."""
        self._local = local
        self._policies = policies
        self._prefix = local_prefix(name)
        self._run = uuid.uuid4().hex
        self._log = get_logger("kubewright.policies.local")

    @asynccontextmanager
    async def registered(self, client: Client) -> AsyncGenerator[None]:
        """Have the policies in use while the block runs.

        `client` registers, unless `LocalPolicies` has credentials of its own. Raises ConfigError if the API server does
        not accept or evaluate them.
        """
        probes = [each for each in (_validating_probe(self._run), _mutating_probe(self._run)) if self._has(each)]
        documents = policy_documents([*self._policies, *probes], prefix=self._prefix)
        async with registrar(client, self._local.config) as own:
            try:
                await self._delete_others(own, documents)
                for each in documents:
                    each.metadata.annotations |= of_run(self._run)
                    await self._apply(own, each)
                for probe in probes:
                    await self._until_evaluated(own, probe)
                self._log.info("Policies registered", policies=len(self._policies))
                yield
            finally:
                ordered = sorted(documents, key=lambda each: KINDS.index(type(each)))
                steps = [delete_own(own, type(each), each.metadata.name, self._run) for each in ordered]
                await deregister(steps, self._log, "Policies not deregistered")

    def _has(self, probe: Policy) -> bool:
        """Return whether there are policies of the kind of a probe."""
        return any(isinstance(each, type(probe)) for each in self._policies)

    async def _apply(self, client: Client, document: PolicyDocument) -> None:
        try:
            await client.apply(document)
        except Forbidden as error:
            raise ConfigError(
                f"the policies cannot be registered: {error}; use credentials that may write policies, "
                f"LocalPolicies(config=...)"
            ) from error
        except NotFound as error:
            raise ConfigError(
                f"the API server does not serve {document.kind} in {document.api_version}: ValidatingPolicy needs "
                f"Kubernetes 1.30, and MutatingPolicy 1.36"
            ) from error
        except Invalid as error:
            name = document.metadata.name.removeprefix(self._prefix)
            raise ConfigError(f"policy {name}: the API server rejects the {document.kind}: {error}") from error

    async def _delete_others(self, client: Client, documents: Sequence[PolicyDocument]) -> None:
        """Delete what an earlier run left and this run does not replace."""
        kept = {(each.kind, each.metadata.name) for each in documents}
        for kind in KINDS:
            with suppress(NotFound, Forbidden):  # not served, or not permitted: then there are none of ours
                for each in await client.list(kind):
                    if self._is_of_this_manager(each) and (each.kind, each.metadata.name) not in kept:
                        with suppress(NotFound):
                            await client.delete(each)

    def _is_of_this_manager(self, document: Object) -> bool:
        metadata = document.metadata
        return metadata.name.startswith(self._prefix) and RUN in metadata.annotations

    async def _until_evaluated(self, client: Client, probe: Policy) -> None:
        """Wait until the API server evaluates a probe. Raises ConfigError if it does not."""
        metadata = ObjectMeta(generate_name=PROBE_PREFIX, namespace="default", labels=_labels(type(probe), self._run))
        async for answer in answers_to(ConfigMap(metadata=metadata), client):
            if isinstance(answer, APIError):
                if _EVALUATED not in str(answer):  # another policy, or no permission for ConfigMaps
                    self._log.warning("Policy registration not confirmed", error=str(answer))
                return
            if isinstance(probe, MutatingPolicy) and PROBE_LABEL in answer.metadata.annotations:
                return
        raise ConfigError(
            f"the API server did not evaluate the policies within {REGISTERED_WITHIN:g} s after they were registered; "
            f"its admission plugins {type(probe).__name__.removesuffix('Policy')}AdmissionPolicy must be on"
        )


def _labels(kind: type[Policy], run: str) -> dict[str, str]:
    """Return the labels of the object that a probe is about. Each kind of policy has one, which no other probe sees."""
    return {PROBE_LABEL: f"{run}-{kind.__name__}"}


def _validating_probe(run: str) -> Policy:
    return ValidatingPolicy(
        _PROBE,
        ConfigMap,
        operations=["CREATE"],
        object_selector=LabelSelector(match_labels=_labels(ValidatingPolicy, run)),
        validations=[Validation("false", message=_EVALUATED)],
    )


def _mutating_probe(run: str) -> Policy:
    annotations = f"Object.metadata{{annotations: {{'{PROBE_LABEL}': 'evaluated'}}}}"
    return MutatingPolicy(
        _PROBE,
        ConfigMap,
        operations=["CREATE"],
        object_selector=LabelSelector(match_labels=_labels(MutatingPolicy, run)),
        mutations=[ApplyConfiguration(f"Object{{metadata: {annotations}}}")],
    )
