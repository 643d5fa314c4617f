"""The chain of admission plugins that each write passes through.

Plugins run at once. A request may have to wait for reviewers: policies and webhooks, which are configured by objects,
and PodSecurity, which looks at the Pods of a namespace.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kubewright_controlplane.apiserver.admission.plugin import AdmissionPlugin, Plugin
from kubewright_controlplane.apiserver.admission.review import Reviewer, StagedReview
from kubewright_controlplane.apiserver.registry.model import Attributes, Review


class Chain:
    """Plugins in order. Starts empty, because plugins need the ResourceSet, which needs the chain."""

    def __init__(self) -> None:
        self._mutating = _ByResource()
        self._validating = _ByResource()
        self._reviewers: list[Reviewer] = []

    def use(self, plugins: Sequence[AdmissionPlugin]) -> None:
        """Let writes pass through these plugins, in order. Each is called only for methods that it overrides."""
        self._mutating = _ByResource(each for each in plugins if type(each).admit is not Plugin.admit)
        self._validating = _ByResource(each for each in plugins if type(each).validate is not Plugin.validate)

    def add_reviewers(self, reviewers: Iterable[Reviewer]) -> None:
        """Add reviewers at the end."""
        self._reviewers.extend(reviewers)

    def review(self, attributes: Attributes) -> Review | None:
        """Return the review by the webhooks and policies that may concern the write; None if there are none."""
        stages = [stage for each in self._reviewers if (stage := each.begin(attributes)) is not None]
        return StagedReview(self, attributes, stages) if stages else None

    def admit(self, attributes: Attributes) -> None:
        """Let each plugin change the object. Raises the error of the first plugin that rejects it."""
        for plugin in self._mutating.of(attributes):
            plugin.admit(attributes)

    def validate(self, attributes: Attributes) -> None:
        """Let each plugin check the final object. Raises the error of the first plugin that rejects it."""
        for plugin in self._validating.of(attributes):
            plugin.validate(attributes)


class _ByResource:
    """Plugins in order, for the resources whose writes they see."""

    def __init__(self, plugins: Iterable[AdmissionPlugin] = ()) -> None:
        plugins = list(plugins)
        self._general = [each for each in plugins if not each.only_for]
        self._special = {
            resource: [each for each in plugins if not each.only_for or resource in each.only_for]
            for resource in {name for each in plugins for name in each.only_for}
        }

    def of(self, attributes: Attributes) -> Sequence[AdmissionPlugin]:
        """Return the plugins that see a write."""
        return self._special.get(attributes.resource.qualified, self._general)
