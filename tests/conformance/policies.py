"""Policies for the cases, which concern ConfigMaps of one namespace."""

from __future__ import annotations

import secrets
from typing import Any

from conformance.rawapi import API, Answer, until

GROUP = "/apis/admissionregistration.k8s.io/v1"
VALIDATING = f"{GROUP}/validatingadmissionpolicies"
VALIDATING_BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
MUTATING = f"{GROUP}/mutatingadmissionpolicies"
MUTATING_BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"
CONFIG_MAPS = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}
PARAM_KIND = {"apiVersion": "v1", "kind": "ConfigMap"}


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data}


class Policies:
    """Creates policies that concern one namespace, each with a binding, and deletes them after the case."""

    def __init__(self, api: API, ns: str) -> None:
        self.api = api
        self.ns = ns
        self.created: list[str] = []

    async def validating(self, *validations: dict[str, Any], binding: dict[str, Any] | None = None, **spec: Any) -> str:
        """Create a ValidatingAdmissionPolicy for ConfigMaps, and return its name."""
        body = {"validations": list(validations), **spec} if validations else spec
        bound = {"validationActions": ["Deny"], **(binding or {})}
        return await self._create(VALIDATING, VALIDATING_BINDINGS, body, bound)

    async def mutating(self, *mutations: dict[str, Any], binding: dict[str, Any] | None = None, **spec: Any) -> str:
        """Create a MutatingAdmissionPolicy for ConfigMaps, and return its name."""
        body = {"mutations": list(mutations), "reinvocationPolicy": "Never", **spec}
        return await self._create(MUTATING, MUTATING_BINDINGS, body, binding or {})

    async def _create(self, policies: str, bindings: str, spec: dict[str, Any], bound: dict[str, Any]) -> str:
        name = f"policy-{secrets.token_hex(4)}"
        own = {"matchLabels": {"kubernetes.io/metadata.name": self.ns.rpartition("/")[2]}}
        match = {"resourceRules": [CONFIG_MAPS], "namespaceSelector": own, **spec.pop("match", {})}
        body = {"metadata": {"name": name}, "spec": {"matchConstraints": match, **spec}}
        (await self.api.post(policies, body)).expect(201)
        self.created.append(f"{policies}/{name}")
        body = {"metadata": {"name": name}, "spec": {"policyName": name, **bound}}
        (await self.api.post(bindings, body)).expect(201)
        self.created.append(f"{bindings}/{name}")
        return name

    async def denied(self, body: dict[str, Any], status: int = 422) -> Answer:
        """Create a ConfigMap until a policy rejects it. A real API server notices a new policy after a while."""

        async def rejected() -> Answer | None:
            answer = await self.api.post(f"{self.ns}/configmaps", body)
            if answer.status == 201:
                await self.api.delete(f"{self.ns}/configmaps/{body['metadata']['name']}")
                return None
            return answer.expect(status)

        return await until(rejected)

    async def changed(self, body: dict[str, Any]) -> dict[str, Any]:
        """Create a ConfigMap until a policy changes its data, and return the ConfigMap."""

        async def created() -> dict[str, Any] | None:
            answer = (await self.api.post(f"{self.ns}/configmaps", body)).expect(201)
            await self.api.delete(f"{self.ns}/configmaps/{body['metadata']['name']}")
            found: dict[str, Any] = answer.json
            return found if found.get("data", {}) != body.get("data", {}) else None

        return await until(created)


def applied(expression: str) -> dict[str, Any]:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def json_patch(expression: str) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}
