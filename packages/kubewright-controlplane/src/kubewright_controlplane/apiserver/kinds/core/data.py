"""ConfigMaps and Secrets.

Follows k8s.io/kubernetes pkg/registry/core/{configmap,secret} and pkg/apis/core/validation.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Final

from kubewright.machinery import names
from kubewright.machinery.fields import FieldError, forbidden, invalid, required, too_long
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.kinds.generic import PlainStrategy
from kubewright_controlplane.apiserver.registry import checks

_MAX_SIZE: Final = 1024 * 1024
_WHOLE: Final = "[]"
"""The name that a real server gives to the whole object as a field."""
_IMMUTABLE: Final = "field is immutable when `immutable` is set"
_ACCOUNT_ANNOTATION: Final = "kubernetes.io/service-account.name"
_REQUIRED_KEYS: Final = {
    "kubernetes.io/tls": ("tls.crt", "tls.key"),
    "kubernetes.io/ssh-auth": ("ssh-privatekey",),
    "kubernetes.io/dockercfg": (".dockercfg",),
    "kubernetes.io/dockerconfigjson": (".dockerconfigjson",),
}
_JSON_KEYS: Final = (".dockercfg", ".dockerconfigjson")


class ConfigMapStrategy(PlainStrategy):
    def validate(self, obj: JSONObject) -> list[FieldError]:
        text, binary = obj.get("data") or {}, obj.get("binaryData") or {}
        errors: list[FieldError] = []
        for key in text:
            errors += checks.named(f"data[{key}]", key, names.config_key)
            if key in binary:
                errors.append(invalid(f"data[{key}]", key, "duplicate of key present in binaryData"))
        for key in binary:
            errors += checks.named(f"binaryData[{key}]", key, names.config_key)
        size = sum(len(value.encode()) for value in text.values()) + _decoded_size(binary)
        return [*errors, too_long(_WHOLE, _MAX_SIZE)] if size > _MAX_SIZE else errors

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return _immutable_errors(obj, old, "data", "binaryData")


class SecretStrategy(PlainStrategy):
    selectable_fields = ("type",)

    def default(self, obj: JSONObject) -> None:
        if not obj.get("type"):
            obj["type"] = "Opaque"
        given = obj.pop("stringData", None)
        if given:
            encoded = {key: b64encode(value.encode()).decode("ascii") for key, value in given.items()}
            obj["data"] = {**(obj.get("data") or {}), **encoded}

    def validate(self, obj: JSONObject) -> list[FieldError]:
        data = obj.get("data") or {}
        errors: list[FieldError] = []
        for key in data:
            errors += checks.named(f"data[{key}]", key, names.config_key)
        if _decoded_size(data) > _MAX_SIZE:
            errors.append(too_long("data", _MAX_SIZE))
        return errors + _type_errors(obj, data)

    def validate_update(self, obj: JSONObject, old: JSONObject) -> list[FieldError]:
        return checks.immutable("type", obj.get("type"), old.get("type")) + _immutable_errors(obj, old, "data")

    def fields(self, obj: JSONObject) -> Mapping[str, str]:
        return {"type": obj.get("type") or ""}


def _type_errors(obj: JSONObject, data: Mapping[str, str]) -> list[FieldError]:
    kind = obj.get("type")
    if kind == "kubernetes.io/service-account-token":
        if not (obj["metadata"].get("annotations") or {}).get(_ACCOUNT_ANNOTATION):
            return [required(f"metadata.annotations[{_ACCOUNT_ANNOTATION}]")]
        return []
    if kind == "kubernetes.io/basic-auth":
        keys = ("username", "password")
        return [] if any(key in data for key in keys) else [required(f"data[{key}]") for key in keys]
    errors: list[FieldError] = []
    for key in _REQUIRED_KEYS.get(kind or "", ()):
        if key not in data or (key == "ssh-privatekey" and not data[key]):
            errors.append(required(f"data[{key}]"))
        elif key in _JSON_KEYS:
            errors += _json_errors(f"data[{key}]", data[key])
    return errors


def _json_errors(path: str, value: str) -> list[FieldError]:
    try:
        json.loads(b64decode(value))
    except json.JSONDecodeError as error:
        ended = error.pos >= len(error.doc.rstrip()) - 1
        why = "unexpected end of JSON input" if ended else f"invalid character '{error.doc[error.pos]}' in JSON"
        return [invalid(path, "<secret contents redacted>", why)]
    except ValueError:
        return [invalid(path, "<secret contents redacted>", "invalid UTF-8 in JSON")]
    return []


def _immutable_errors(obj: JSONObject, old: JSONObject, *fields: str) -> list[FieldError]:
    if not old.get("immutable"):
        return []
    errors = [] if obj.get("immutable") else [forbidden("immutable", _IMMUTABLE)]
    return errors + [
        forbidden(field, _IMMUTABLE) for field in fields if not checks.same(obj.get(field), old.get(field))
    ]


def _decoded_size(data: Mapping[str, str]) -> int:
    return sum(len(value) * 3 // 4 - value.count("=", -2) for value in data.values())
