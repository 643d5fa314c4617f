"""Mutating webhooks: called one by one, each sees what the earlier ones changed, and some are called again.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/mutating and pkg/admission/reinvocation.go.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kubewright.machinery.errors import APIError
from kubewright.machinery.json import JSONArray, JSONObject, equal
from kubewright.machinery.patch import json_patch
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller, internal_error
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Configurations, Webhook
from kubewright_controlplane.apiserver.registry.model import Attributes


@dataclass(slots=True)
class Reinvocation:
    """Which webhooks are called again in a second round, since something changed the object after their call."""

    due: set[Webhook] = field(default_factory=set[Webhook])
    called: set[Webhook] = field(default_factory=set[Webhook])
    """Those that may be called again, and were called after the last change."""
    last: JSONObject | None = None
    """The object after the last call."""
    changed: bool = False
    """A webhook has changed the object, so there is a second round."""

    def note_change(self) -> None:
        """Note that the object has changed: what was called before has not seen that."""
        self.due |= self.called
        self.called = set()


class MutatingWebhooks:
    """Calls the webhooks of the stored MutatingWebhookConfigurations."""

    def __init__(self, configurations: Configurations, caller: WebhookCaller) -> None:
        self._configurations = configurations
        self._caller = caller

    def may_concern(self, attributes: Attributes) -> bool:
        """Return whether a rule of any webhook matches the operation and the resource."""
        return bool(self._configurations.candidates.of(attributes))

    async def admit(self, attributes: Attributes, reinvocation: Reinvocation, *, again: bool) -> None:
        """Let each webhook change `attributes.object`, in order: in a second round (`again`), those that are due.

        Raises an APIError if one denies the write, or fails and must not.
        """
        if again and reinvocation.last is not None and not equal(reinvocation.last, attributes.object):
            reinvocation.note_change()
        for candidate in self._configurations.candidates.of(attributes):
            webhook = candidate.item
            write = self._caller.concerned(candidate, attributes)
            if write is None or (again and webhook not in reinvocation.due):
                continue
            answer = await self._caller.ask(webhook, write, mutating=True)
            if answer is not None and answer.patch and _apply(webhook, write, answer.patch):
                reinvocation.changed = True
                reinvocation.note_change()
            if webhook.reinvoked:
                reinvocation.called.add(webhook)
        reinvocation.last = attributes.object


def _apply(webhook: Webhook, write: VersionedAttributes, patch: JSONArray) -> bool:
    """Apply a webhook's patch to the object of the write. Returns whether that changed it."""
    if write.object is None:
        text = f'admission webhook "{webhook.name}" attempted to modify the object'
        raise internal_error(f"{text}, which is not supported for this operation")
    try:
        patched = json_patch(write.object, patch)
    except APIError as error:
        raise internal_error(str(error.__cause__ or error)) from error
    return write.replace_object(patched)
