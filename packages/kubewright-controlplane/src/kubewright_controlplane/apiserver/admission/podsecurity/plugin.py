"""The plugin PodSecurity, and its review of the Pods in a namespace whose level changes.

Pods that violate the level of their namespace are rejected. For Pods and for the templates of workloads, there are
warnings for the user. There is no audit log, so violations of the audited level are logged.

Follows k8s.io/pod-security-admission/admission.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.machinery.errors import Invalid
from kubewright.machinery.json import JSONObject, quoted
from kubewright_controlplane.apiserver.admission.plugin import Plugin
from kubewright_controlplane.apiserver.admission.podsecurity.checks import Violation, violations
from kubewright_controlplane.apiserver.admission.podsecurity.configuration import PodSecurity as Configuration
from kubewright_controlplane.apiserver.admission.podsecurity.levels import (
    PREFIX,
    PRIVILEGED,
    LevelVersion,
    Policy,
    is_stricter,
    policy_of,
)
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.authorization.attributes import forbidden_object
from kubewright_controlplane.apiserver.registry.failures import internal_error
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Entry, Event

_TEMPLATES: Final[Mapping[str, tuple[str, ...]]] = {
    "cronjobs.batch": ("spec", "jobTemplate", "spec", "template"),
    "daemonsets.apps": ("spec", "template"),
    "deployments.apps": ("spec", "template"),
    "jobs.batch": ("spec", "template"),
    "podtemplates": ("template",),
    "replicasets.apps": ("spec", "template"),
    "replicationcontrollers": ("spec", "template"),
    "statefulsets.apps": ("spec", "template"),
}
"""Where the templates of workloads are."""
_UNCHECKED: Final = frozenset(("attach", "binding", "eviction", "exec", "log", "portforward", "proxy", "status"))
"""Subresources of Pods that change nothing about security."""
_MOST_PODS: Final = 3000
_MOST_SECONDS: Final = 1.0
_TURN_SECONDS: Final = 0.01
"""Other requests are served after this time."""

_log = get_logger(__name__)


class PodSecurity(Plugin):
    name = "PodSecurity"
    only_for = ("namespaces", "pods", *_TEMPLATES)

    def __init__(self, resources: ResourceSet, configuration: Configuration) -> None:
        self._resources = resources
        self._configuration = configuration
        self._defaults = configuration.defaults
        self._policies: dict[str, Policy] = {}
        resources.observe("namespaces", self._on_commit)

    def _on_commit(self, event: Event) -> None:
        if event.type == "DELETED":
            self._policies.pop(event.entry.name, None)
        else:
            self._policies[event.entry.name] = policy_of(event.entry.labels, self._defaults)[0]

    def validate(self, attributes: Attributes) -> None:
        if attributes.operation not in ("CREATE", "UPDATE"):
            return
        resource = attributes.resource.qualified
        if resource == "pods":
            self._validate_pod(attributes)
        elif attributes.subresource:
            return
        elif resource == "namespaces":
            self._validate_namespace(attributes)
        else:
            self._validate_template(attributes, _TEMPLATES[resource])

    # Pods and templates

    def _validate_pod(self, attributes: Attributes) -> None:
        if attributes.subresource in _UNCHECKED or self._is_exempt(attributes):
            return
        policy = self._policies.get(attributes.namespace)
        if policy is None:
            raise internal_error(f"failed to lookup namespace {quoted(attributes.namespace)}")
        if policy.is_privileged:
            return
        pod, old = attributes.object, attributes.old_object
        assert pod is not None
        if old is not None and not _is_significant(pod["spec"], old["spec"]):
            return
        self._evaluate(attributes, policy, pod["metadata"], pod["spec"], enforces=True)

    def _validate_template(self, attributes: Attributes, path: Sequence[str]) -> None:
        if self._is_exempt(attributes):
            return
        policy = self._policies.get(attributes.namespace)
        if policy is None or policy.warn.level == policy.audit.level == PRIVILEGED:
            return
        template = attributes.object
        for each in path:
            template = (template or {}).get(each)
        if template is not None:
            self._evaluate(
                attributes, policy, template.get("metadata") or {}, template.get("spec") or {}, enforces=False
            )

    def _is_exempt(self, attributes: Attributes) -> bool:
        configuration = self._configuration
        return (
            attributes.namespace in configuration.exempt_namespaces
            or attributes.user.name in configuration.exempt_users
        )

    def _has_exempt_class(self, spec: JSONObject) -> bool:
        return spec.get("runtimeClassName") in self._configuration.exempt_runtime_classes

    def _evaluate(
        self, attributes: Attributes, policy: Policy, metadata: JSONObject, spec: JSONObject, *, enforces: bool
    ) -> None:
        if self._has_exempt_class(spec):
            return
        results: dict[LevelVersion, str] = {}

        def violated(level: LevelVersion) -> str:
            if level not in results:
                results[level] = _detailed(violations(level, metadata, spec))
            return results[level]

        if violated(policy.audit):
            text = f'would violate PodSecurity "{policy.audit}": {violated(policy.audit)}'
            _log.info("Audit annotation recorded", key=f"{PREFIX}audit-violations", value=text)
        if enforces and violated(policy.enforce):
            resource, why = attributes.resource, violated(policy.enforce)
            raise forbidden_object(
                resource.group, resource.plural, attributes.name, f'violates PodSecurity "{policy.enforce}": {why}'
            )
        if violated(policy.warn):
            attributes.warnings.append(f'would violate PodSecurity "{policy.warn}": {violated(policy.warn)}')

    # Namespaces

    def _validate_namespace(self, attributes: Attributes) -> None:
        policy, errors = policy_of(_labels(attributes.object), self._defaults)
        old_errors = policy_of(_labels(attributes.old_object), self._defaults)[1]
        if errors and errors != old_errors:
            resource = attributes.resource
            raise Invalid.of(resource.kind, resource.group, attributes.name, errors)
        if attributes.name in self._configuration.exempt_namespaces and self._is_relevant(attributes, policy):
            attributes.warnings.extend(self._exemption_warnings(attributes.name, policy, _labels(attributes.object)))

    def _is_relevant(self, attributes: Attributes, policy: Policy) -> bool:
        """Return whether a write changes what is enforced, in a way that Pods may violate."""
        if attributes.operation == "CREATE":
            return True
        new, old = policy.enforce, policy_of(_labels(attributes.old_object), self._defaults)[0].enforce
        if new == old or new.level == PRIVILEGED:
            return False
        return new.version != old.version or is_stricter(new.level, old.level)

    def _exemption_warnings(self, namespace: str, policy: Policy, labels: Mapping[str, str]) -> Iterator[str]:
        if policy.is_privileged or policy.is_equivalent(self._defaults):
            return
        modes = {"enforce": policy.enforce, "audit": policy.audit, "warn": policy.warn}
        listed = ", ".join(
            f"{mode}={level}"
            for mode, level in modes.items()
            if level.level != PRIVILEGED and (f"{PREFIX}{mode}" in labels or f"{PREFIX}{mode}-version" in labels)
        )
        yield f"namespace {quoted(namespace)} is exempt from Pod Security, and the policy ({listed}) will be ignored"

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return the review of the Pods in a namespace; None for any other write."""
        if attributes.operation != "UPDATE" or attributes.resource.qualified != "namespaces":
            return None
        if attributes.subresource or attributes.name in self._configuration.exempt_namespaces:
            return None
        return _PodReview(self, attributes)

    async def warn_of_pods(self, attributes: Attributes) -> None:
        """Warn of the Pods that violate the new level of a namespace."""
        policy = policy_of(_labels(attributes.object), self._defaults)[0]
        if self._is_relevant(attributes, policy):
            survey = _Survey(policy.enforce, self._resources.decode, self._has_exempt_class)
            await survey.run(self._resources.registry("pods").entries(attributes.name))
            attributes.warnings.extend(survey.warnings(attributes.name))


@dataclass(frozen=True, slots=True)
class _PodReview(Stage):
    """The review of the Pods in a namespace that is written."""

    plugin: PodSecurity
    attributes: Attributes

    async def validate(self) -> None:
        await self.plugin.warn_of_pods(self.attributes)


class _Survey:
    """Checks the Pods of a namespace: first one of each controller, then the others, until it has taken too long."""

    def __init__(
        self, level: LevelVersion, decode: Callable[[bytes], JSONObject], is_exempt: Callable[[JSONObject], bool]
    ) -> None:
        self._level = level
        self._decode = decode
        self._is_exempt = is_exempt
        self._violations: dict[str, list[str]] = {}
        """The names of Pods, by what they violate."""
        self._controllers: set[str] = set()
        self._checked = 0
        self._total = 0

    async def run(self, entries: Sequence[Entry]) -> None:
        now = asyncio.get_running_loop().time
        deadline = now() + _MOST_SECONDS
        self._total = len(entries)
        waiting, turn = deque((entry, False) for entry in entries), now()
        while waiting and self._checked < _MOST_PODS and now() < deadline:
            entry, is_repeated = waiting.popleft()
            if not self._take(entry, is_repeated=is_repeated):
                waiting.append((entry, True))
            if now() - turn > _TURN_SECONDS:
                await asyncio.sleep(0)
                turn = now()

    def _take(self, entry: Entry, *, is_repeated: bool) -> bool:
        """Check a Pod. Returns whether it has been its turn: not if another Pod of its controller has been checked."""
        pod = self._decode(entry.data)
        if self._is_exempt(pod["spec"]):
            self._total -= 1
            return True
        controller = next(
            (each["uid"] for each in pod["metadata"].get("ownerReferences") or () if each.get("controller")), None
        )
        if controller in self._controllers and not is_repeated:
            return False
        if controller is not None:
            self._controllers.add(controller)
        self._checked += 1
        found = violations(self._level, pod["metadata"], pod["spec"])
        if found:
            self._violations.setdefault(", ".join(each.reason for each in found), []).append(entry.name)
        return True

    def warnings(self, namespace: str) -> Iterator[str]:
        if self._checked < self._total:
            yield (
                f"new PodSecurity enforce level only checked against the first {self._checked} of {self._total} "
                "existing pods"
            )
        if self._violations:
            yield (
                f"existing pods in namespace {quoted(namespace)} violate the new PodSecurity enforce level "
                f'"{self._level}"'
            )
        yield from sorted(f"{_summary(pods)}: {reasons}" for reasons, pods in self._violations.items())


def _summary(pods: Sequence[str]) -> str:
    """Return the first of these names, and the number of the others."""
    others = len(pods) - 1
    return min(pods) if not others else f"{min(pods)} (and {others} other pod{'' if others == 1 else 's'})"


def _labels(obj: JSONObject | None) -> Mapping[str, str]:
    return ((obj or {}).get("metadata") or {}).get("labels") or {}


def _detailed(found: Sequence[Violation]) -> str:
    return ", ".join(map(str, found))


def _is_significant(spec: JSONObject, old: JSONObject) -> bool:
    """Return whether an update adds containers or changes images: nothing else about the security of a Pod changes."""
    for kind in ("containers", "initContainers"):
        images = [[each.get("image") for each in each_spec.get(kind) or ()] for each_spec in (spec, old)]
        if images[0] != images[1]:
            return True
    had = {each["name"]: each.get("image") for each in old.get("ephemeralContainers") or ()}
    added = spec.get("ephemeralContainers") or ()
    return any(each["name"] not in had or had[each["name"]] != each.get("image") for each in added)
