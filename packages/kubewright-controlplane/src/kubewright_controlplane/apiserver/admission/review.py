"""The part of admission that is configured by objects, in order, and its second round.

After the built-in plugins come the mutating policies and webhooks, and after validation the validating ones. If one of
them changes the object, all of the mutating admission runs again, with the built-in plugins: so an earlier one sees
what a later one changed.

Follows k8s.io/apiserver pkg/admission/reinvocation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kubewright_controlplane.apiserver.registry.model import Attributes


class Stage:
    """What one reviewer does about one write. Subclasses override one method or both."""

    async def admit(self, *, again: bool) -> bool:
        """Let the reviewer change or replace the object of the write. Returns whether it did.

        `again` is True in the second round. Raises an APIError to reject the write.
        """
        return False

    async def validate(self) -> None:
        """Let the reviewer check the final object. Raises an APIError to reject the write."""


class Reviewer(Protocol):
    """Reviews writes by what is configured now."""

    def begin(self, attributes: Attributes) -> Stage | None:
        """Return what it does about a write; None, after a dictionary lookup, if nothing concerns the write."""
        ...


class Plugins(Protocol):
    """The built-in plugins."""

    def admit(self, attributes: Attributes) -> None: ...

    def validate(self, attributes: Attributes) -> None: ...


class StagedReview:
    """The review of one write by several reviewers, in order."""

    def __init__(self, plugins: Plugins, attributes: Attributes, stages: Sequence[Stage]) -> None:
        self._plugins = plugins
        self._attributes = attributes
        self._stages = stages

    async def admit(self) -> None:
        """Let the mutating reviewers change the object, in a second round too if there was a change."""
        if not await self._round(again=False):
            return
        self._plugins.admit(self._attributes)
        await self._round(again=True)

    async def _round(self, *, again: bool) -> bool:
        changed = [await stage.admit(again=again) for stage in self._stages]
        return any(changed)

    async def validate(self) -> None:
        """Let the validating reviewers check the object.

        The built-in plugins check it again at last: quotas and namespaces may have changed while the write waited.
        """
        for stage in self._stages:
            await stage.validate()
        self._plugins.validate(self._attributes)
