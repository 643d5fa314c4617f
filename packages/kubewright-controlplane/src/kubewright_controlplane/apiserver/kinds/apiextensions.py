"""Strategies of apiextensions.k8s.io: CustomResourceDefinitions. `apiserver.apiextensions` serves their kinds.

Follows k8s.io/apiextensions-apiserver pkg/registry/customresourcedefinition.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.apiextensions.approval import approval_errors
from kubewright_controlplane.apiserver.apiextensions.definitions import CLEANUP_FINALIZER
from kubewright_controlplane.apiserver.apiextensions.naming import is_established, set_terminating
from kubewright_controlplane.apiserver.apiextensions.validation import validate, validate_update
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Attributes, Strategy
from kubewright_controlplane.schema.structural.check import unrecognized_formats


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {"customresourcedefinitions": DefinitionStrategy(server.options.clock)}


class DefinitionStrategy(Strategy):
    allow_unconditional_update = False
    delete_answers_object = True
    records_grace = False

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def default(self, obj: JSONObject) -> None:
        spec: JSONObject = obj.setdefault("spec", {})
        names: JSONObject = spec.setdefault("names", {})
        if names.get("kind"):
            names["singular"] = names.get("singular") or names["kind"].lower()
            names["listKind"] = names.get("listKind") or f"{names['kind']}List"
        spec.setdefault("conversion", {"strategy": "None"})
        service = ((spec["conversion"].get("webhook") or {}).get("clientConfig") or {}).get("service")
        if service is not None:
            service.setdefault("port", 443)
        if spec.get("preserveUnknownFields") is False:
            del spec["preserveUnknownFields"]
        if not (obj.get("status") or {}).get("storedVersions"):
            _add_stored_version(obj)

    def prepare_for_create(self, obj: JSONObject, attributes: Attributes) -> None:
        obj["status"] = {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}}
        _add_stored_version(obj)

    def prepare_for_update(self, obj: JSONObject, old: JSONObject, attributes: Attributes) -> None:
        obj["status"] = dict(old.get("status") or {})
        _add_stored_version(obj)

    def validate(self, obj: JSONObject) -> list[FieldError]:
        return validate(obj)

    def validate_create(self, obj: JSONObject) -> list[FieldError]:
        return approval_errors(obj, None)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return validate_update(obj, old, established=is_established(old)) + approval_errors(obj, old)

    def warnings(self, obj: JSONObject, old: JSONObject | None) -> list[str]:
        had = _unrecognized_formats(old) if old else ()
        return [f'unrecognized format "{each}"' for each in _unrecognized_formats(obj) if each not in had]

    def before_delete(self, obj: JSONObject, attributes: Attributes) -> None:
        metadata = obj["metadata"]
        if metadata.get("deletionTimestamp"):
            return
        finalizers = metadata.get("finalizers") or []
        if CLEANUP_FINALIZER not in finalizers:
            metadata["finalizers"] = [*finalizers, CLEANUP_FINALIZER]
        message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon"
        now = time.format(self._clock.now())
        set_terminating(obj, "InstanceDeletionPending", message, now, holds=True)


def _unrecognized_formats(crd: JSONObject) -> list[str]:
    versions: list[JSONObject] = crd["spec"].get("versions") or []
    schemas = ((each.get("schema") or {}).get("openAPIV3Schema") or {} for each in versions)
    return [each for schema in schemas for each in unrecognized_formats(schema)]


def _add_stored_version(obj: JSONObject) -> None:
    status: JSONObject = obj.setdefault("status", {})
    stored = list(status.get("storedVersions") or ())
    wanted = [each.get("name") for each in obj["spec"].get("versions") or () if each.get("storage")]
    status["storedVersions"] = stored + [name for name in wanted[:1] if name not in stored]
