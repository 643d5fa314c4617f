"""Type checks of ValidatingAdmissionPolicies: `status.typeChecking` warns of expressions that cannot be right.

A policy is accepted and evaluated whatever its objects are. A check finds out whether its expressions fit the schemas
of the kinds that it matches, as far as these are named without wildcards. The result never changes what a policy does.

On a real cluster the controller manager checks (`validatingadmissionpolicy-status-controller`). Here the server does,
so that it needs no controllers.

Follows k8s.io/apiserver pkg/admission/plugin/policy/validating/typechecking.go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from typing import Final

from kubewright._runtime.clock import Clock, Timer
from kubewright.cel.library.authorization import AUTHORIZER
from kubewright.cel.syntax import CompileError
from kubewright.cel.types import Type
from kubewright.machinery.errors import APIError
from kubewright.machinery.gvk import GroupVersionKind
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.policies.kindtypes import declared_type
from kubewright_controlplane.apiserver.registry.failures import kind_text
from kubewright_controlplane.apiserver.registry.options import WriteCall, WriteOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.registry.writes import finish
from kubewright_controlplane.apiserver.storage.events import Event
from kubewright_controlplane.schema.cel.composition import Composition

MANAGER: Final = "validatingadmissionpolicy-status"
"""The field manager of the status."""

_POLICIES: Final = "validatingadmissionpolicies.admissionregistration.k8s.io"
_MOST_KINDS: Final = 10


class TypeChecking:
    """Checks each new version of a policy in the background, one expression at a time."""

    def __init__(self, resources: ResourceSet, clock: Clock) -> None:
        self._resources = resources
        self._clock = clock
        self._due: deque[str] = deque()
        self._steps: Iterator[None] = iter(())
        self._timer: Timer | None = None
        resources.observe(_POLICIES, self._on_commit)

    def start(self) -> None:
        """Begin to check. Policies from an earlier run are checked now, unless they were."""
        self._timer = self._clock.call_later(0, self._run)

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _on_commit(self, event: Event) -> None:
        if event.type == "DELETED":
            return
        was_idle = not self._due
        self._due.append(event.entry.name)
        if was_idle and self._timer is not None:
            self._timer.cancel()
            self.start()

    def _run(self) -> None:
        """Do one step, and let the event loop do other things before the next one."""
        try:
            next(self._steps)
        except StopIteration:
            if not self._due:
                return
            self._steps = self._check(self._due.popleft())
        self.start()

    def _check(self, name: str) -> Iterator[None]:
        """Check a policy step by step, and write its status."""
        registry = self._resources.registry(_POLICIES)
        policy = registry.read(name)
        if policy is None or not _is_unchecked(policy):
            return
        warnings: list[JSONObject] = []
        yield from _warnings(policy, self._resources, warnings)
        checking: JSONObject = {"expressionWarnings": warnings} if warnings else {}
        status = {"observedGeneration": policy["metadata"]["generation"], "typeChecking": checking}
        config = {"apiVersion": policy["apiVersion"], "kind": policy["kind"], "metadata": {"name": name}}
        call = WriteCall(WriteOptions(field_manager=MANAGER, force=True))
        with suppress(APIError):  # the policy was deleted meanwhile
            finish(registry.begin_apply(name, {**config, "status": status}, subresource="status", call=call))


def _is_unchecked(policy: JSONObject) -> bool:
    observed = (policy.get("status") or {}).get("observedGeneration") or 0
    generation: int = policy["metadata"].get("generation") or 0
    return generation > observed


def _warnings(policy: JSONObject, resources: ResourceSet, warnings: list[JSONObject]) -> Iterator[None]:
    """Add the warnings about all expressions to `warnings`. Each step of the iteration compiles one expression."""
    spec: JSONObject = policy["spec"]
    environments: list[tuple[GroupVersionKind, Composition]] = []
    for kind in kinds_to_check(spec, resources):
        own = declared_type(kind, resources)
        environment = _typed(own, spec.get("paramKind"), resources)
        for variable in spec.get("variables") or ():
            with suppress(CompileError):  # what uses it is checked as if it could have any value
                environment.declare(variable["name"], variable["expression"])
            yield
        environments.append((kind, environment))
    for index, validation in enumerate(spec.get("validations") or ()):
        for field in ("expression", "messageExpression"):
            errors: list[str] = []
            for kind, environment in environments if validation.get(field) else ():
                if error := _error(environment, validation[field]):
                    errors.append(f"{kind_text(kind)}: {error}\n")
                yield
            if errors:
                warnings.append({"fieldRef": f"spec.validations[{index}].{field}", "warning": "\n".join(errors)})


def _error(environment: Composition, source: str) -> str:
    try:
        environment.compile(source)
    except CompileError as error:
        return str(error).removeprefix("compilation failed: ")
    return ""


def _typed(own: Type, param_kind: JSONObject | None, resources: ResourceSet) -> Composition:
    """Return the environment of a policy's expressions, in which the types of objects and parameters are known."""
    environment = Composition(has_parameters=param_kind is not None)
    # as in the controller manager, which does not know authorizer.requestResource
    environment.types |= {"object": own, "oldObject": own, "authorizer": Type(AUTHORIZER.name)}
    if param_kind is not None:
        kind = GroupVersionKind.parse(param_kind["apiVersion"], param_kind["kind"])
        environment.types["params"] = declared_type(kind, resources)
    return environment


def kinds_to_check(spec: JSONObject, resources: ResourceSet) -> list[GroupVersionKind]:
    """Return the kinds that a policy's rules name without wildcards, sorted; at most 10 of a rule."""
    found: set[GroupVersionKind] = set()
    for rule in (spec.get("matchConstraints") or {}).get("resourceRules") or ():
        groups, versions = rule.get("apiGroups") or (), rule.get("apiVersions") or ()
        plurals = [each for each in rule.get("resources") or () if "*" not in each and "/" not in each]
        if any("*" in each for each in (*groups, *versions)):
            continue
        count = 0
        for group, version, plural in product(sorted(groups), sorted(versions), sorted(plurals)):
            for kind in _kinds(group, version, plural, resources):
                found.add(kind)
                count += 1
                if count == _MOST_KINDS:
                    return _sorted(found)
    return _sorted(found)


def _kinds(group: str, version: str, plural: str, resources: ResourceSet) -> list[GroupVersionKind]:
    """Return the kinds of a resource. The core group, whose name is empty, means any group to a RESTMapper."""
    return [
        each.gvk
        for each in resources
        if each.plural == plural and each.version == version and group in ("", each.group)
    ]  # fmt: skip


def _sorted(kinds: set[GroupVersionKind]) -> list[GroupVersionKind]:
    return sorted(kinds, key=lambda each: (each.group, each.version, each.kind))
