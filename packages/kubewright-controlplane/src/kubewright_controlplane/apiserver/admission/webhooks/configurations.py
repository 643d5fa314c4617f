"""The webhooks that are configured now, compiled once for each stored configuration."""

from __future__ import annotations

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.expressions import MatchConditions
from kubewright_controlplane.apiserver.admission.matching import Candidates, Criteria
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.events import Event
from kubewright_controlplane.apiserver.webhooks.validation import REVIEW_VERSIONS


class Webhook:
    """An entry of `webhooks` in a configuration."""

    def __init__(self, configuration: str, spec: JSONObject) -> None:
        self.configuration = configuration
        self.name: str = spec["name"]
        self.client_config: JSONObject = spec["clientConfig"]
        self.ignores_failures = spec.get("failurePolicy") == "Ignore"
        self.timeout: int = spec.get("timeoutSeconds") or 10
        self.supports_dry_run = spec.get("sideEffects") in ("None", "NoneOnDryRun")
        self.reinvoked = spec.get("reinvocationPolicy") == "IfNeeded"
        self.review_version: str = next(
            (each for each in spec.get("admissionReviewVersions") or () if each in REVIEW_VERSIONS), ""
        )
        self.criteria = Criteria.of_webhook(spec)
        self.conditions = MatchConditions(
            spec.get("matchConditions") or (), "Ignore" if self.ignores_failures else "Fail"
        )


class Configurations:
    """The webhooks of all stored configurations of one kind, in the order of their calls."""

    def __init__(self, resources: ResourceSet, qualified: str) -> None:
        """`qualified` is the name of the resource: `validatingwebhookconfigurations.admissionregistration.k8s.io`."""
        self.candidates = Candidates[Webhook](resources)
        self._resources = resources
        self._webhooks: dict[str, list[Webhook]] = {}
        resources.observe(qualified, self._on_commit)

    def _on_commit(self, event: Event) -> None:
        name = event.entry.name
        if event.type == "DELETED":
            self._webhooks.pop(name, None)
        else:
            configuration = self._resources.decode(event.entry.data)
            self._webhooks[name] = [Webhook(name, each) for each in configuration.get("webhooks") or ()]
        ordered = [webhook for _, webhooks in sorted(self._webhooks.items()) for webhook in webhooks]
        self.candidates.set((each.criteria, each) for each in ordered)
