"""Mutating webhooks: called one by one, each sees what the earlier ones changed, and some are called again.

Follows k8s.io/apiserver pkg/admission/plugin/webhook/mutating and pkg/admission/reinvocation.go.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kubewright.machinery.errors import Invalid, RequestTooLarge
from kubewright.machinery.json import JSONArray, JSONObject, copied, equal
from kubewright.machinery.patch import json_patch
from kubewright_controlplane.apiserver.admission.matching import Candidate
from kubewright_controlplane.apiserver.admission.review import Stage
from kubewright_controlplane.apiserver.admission.versions import VersionedAttributes
from kubewright_controlplane.apiserver.admission.webhooks.calls import WebhookCaller
from kubewright_controlplane.apiserver.admission.webhooks.configurations import Webhook
from kubewright_controlplane.apiserver.registry.conversions import settle
from kubewright_controlplane.apiserver.registry.failures import internal_error
from kubewright_controlplane.apiserver.registry.model import Attributes


class MutatingCalls(Stage):
    """The calls of mutating webhooks for one write."""

    def __init__(self, attributes: Attributes, candidates: Sequence[Candidate[Webhook]], caller: WebhookCaller) -> None:
        self._attributes = attributes
        self._candidates = candidates
        self._caller = caller
        self._due: set[Webhook] = set()
        """Those that are called in the second round, since something changed the object after their call."""
        self._called: set[Webhook] = set()
        """Those that may be called again, and were called after the last change."""
        self._last: JSONObject | None = None
        """The object after the first round, if a webhook may be called again."""

    async def admit(self, *, again: bool) -> bool:
        """Call each webhook, in order; in the second round, those that are due."""
        changed = False
        if again and self._called and not equal(self._last, self._attributes.object):
            self._note_change()
        async for webhook, write in self._caller.concerned(self._candidates, self._attributes):
            if again and webhook not in self._due:
                continue
            answer = await self._caller.ask(webhook, write, mutating=True)
            if answer is not None and answer.patch:
                steps = self._caller.steps(webhook, answer.size)
                steps.are_large = steps.are_large or any(each.get("op") == "copy" for each in answer.patch)
                if await settle(partial(_apply, webhook, write, answer.patch), run=steps.run):
                    changed = True
                    self._note_change()
            if webhook.reinvoked:
                self._called.add(webhook)
        if self._called and not again:
            self._last = copied(self._attributes.object)
        return changed

    def _note_change(self) -> None:
        self._due |= self._called
        self._called = set()


def _apply(webhook: Webhook, write: VersionedAttributes, patch: JSONArray) -> bool:
    """Apply a webhook's patch to the object of the write. Returns whether that changed it."""
    if write.object is None:
        text = f'admission webhook "{webhook.name}" attempted to modify the object'
        raise internal_error(f"{text}, which is not supported for this operation")
    try:
        return write.replace_object(json_patch(write.object, patch), keep_unknown=True)
    except Invalid as error:
        raise internal_error(str(error.__cause__ or error)) from error
    except RequestTooLarge as error:
        raise internal_error(str(error)) from error
    except RecursionError:
        raise internal_error(f'admission webhook "{webhook.name}" made an object that is nested too deeply') from None
