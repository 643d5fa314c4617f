"""Object metadata: values that the server sets, allowed changes, and validation.

Follows k8s.io/apimachinery/pkg/api/validation/objectmeta.go and apiserver's registry/rest.
"""

from __future__ import annotations

from datetime import datetime
from json import dumps
from typing import cast

from msgspec.structs import replace

from kubewright.machinery import names, time
from kubewright.machinery.errors import BadRequest, InternalError
from kubewright.machinery.fields import FieldError, forbidden, invalid, required
from kubewright.machinery.gvk import GroupVersion
from kubewright.machinery.json import JSONArray, JSONObject, is_object
from kubewright_controlplane.apiserver.registry.checks import named
from kubewright_controlplane.apiserver.registry.model import Resource

_ANNOTATIONS_LIMIT = 256 * 1024
_PLAIN_FINALIZERS = frozenset({"orphan", "foregroundDeletion", "kubernetes"})
_COLLECTOR_FINALIZERS = frozenset({"orphan", "foregroundDeletion"})
_EXTENSIONS = "apiextensions.k8s.io"
_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")
_RESTORED = ("creationTimestamp", "deletionTimestamp", "generation")
_KEPT_IF_ABSENT = ("uid", "deletionGracePeriodSeconds")
_MAX_VERSION = 2**64 - 1
_VERSION_DIGITS = 20
_DUPLICATE_OWNERS = (
    ".metadata.ownerReferences contains duplicate entries{}; API server dedups owner references in 1.20+, and may "
    "reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: {}"
)
_AFTER_ADMISSION = " after mutating admission happens"
_EMPTY_IS_ABSENT = ("labels", "annotations", "ownerReferences", "finalizers", "managedFields")


def metadata_of(obj: JSONObject) -> JSONObject:
    """Return the object's metadata, which is added if absent, without empty maps and lists. Raises BadRequest if it
    is not an object.
    """
    metadata = obj.get("metadata")
    if metadata is None:
        metadata = obj["metadata"] = dict[str, object]()
    if not is_object(metadata):
        raise BadRequest("json: cannot unmarshal metadata into Go struct field .metadata of type v1.ObjectMeta")
    for field in _EMPTY_IS_ABSENT:
        if field in metadata and not metadata[field]:
            del metadata[field]
    return metadata


def match_namespace(resource: Resource, metadata: JSONObject, namespace: str) -> None:
    """Set the namespace of the request in the object. Raises BadRequest if the object has another one."""
    given = metadata.get("namespace") or ""
    if not resource.namespaced:
        metadata.pop("namespace", None)
    elif given and given != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")
    else:
        metadata["namespace"] = namespace


def match_name(metadata: JSONObject, name: str) -> None:
    """Raise BadRequest if the name of the object differs from that in the URL."""
    given = metadata.get("name") or ""
    if not given:
        raise BadRequest(f"the name of the object ({name} based on URL) was undeterminable: name must be provided")
    if given != name:
        raise BadRequest(f"the name of the object ({given}) does not match the name on the URL ({name})")


def drop_server_owned(metadata: JSONObject) -> None:
    """Drop the metadata that only the server assigns, from a new object."""
    for field in (*_SERVER_OWNED, "selfLink"):
        metadata.pop(field, None)


def fill_for_create(metadata: JSONObject, now: datetime) -> None:
    """Set the metadata that only the server assigns to a new object."""
    drop_server_owned(metadata)
    metadata["uid"] = names.generate_uid()
    metadata["creationTimestamp"] = time.format(now)
    if not metadata.get("name") and metadata.get("generateName"):
        generate_name(metadata)


def generate_name(metadata: JSONObject) -> None:
    metadata["name"] = names.generate_name(metadata["generateName"])


def drop_duplicate_owners(metadata: JSONObject, warnings: list[str], *, after_admission: bool = False) -> None:
    """Drop owner references that are equal to an earlier one, and warn of them. Other values stay."""
    owners = cast("JSONArray", metadata.get("ownerReferences") or [])
    if not isinstance(metadata.get("ownerReferences"), list) or len(owners) < 2:
        return
    kept: JSONArray = []
    dropped: list[str] = []
    seen: set[str] = set()
    for owner in owners:
        text = dumps(owner, sort_keys=True)
        if text in seen and is_object(owner):
            dropped.append(str(owner.get("uid", "")))
        else:
            seen.add(text)
            kept.append(owner)
    if dropped:
        metadata["ownerReferences"] = kept
        warnings.append(_DUPLICATE_OWNERS.format(_AFTER_ADMISSION if after_admission else "", ", ".join(dropped)))


def keep_from_old(metadata: JSONObject, old: JSONObject) -> None:
    """Restore the metadata that an update cannot change, and that it may leave out.

    Some of it is restored whatever the update says. A change of the rest is an error.
    """
    metadata.pop("selfLink", None)
    for field in _RESTORED:
        if field in old:
            metadata[field] = old[field]
        elif field != "deletionTimestamp":
            metadata.pop(field, None)
    for field in _KEPT_IF_ABSENT:
        if field in old and metadata.get(field) in (None, ""):
            metadata[field] = old[field]


def parse_version(text: str) -> int | None:
    """Return the number in `metadata.resourceVersion`; None if it is empty or zero, which means no version.

    Raises InternalError, as a real API server does, for other text.
    """
    if not text.isascii() or not text.isdecimal():
        if not text:
            return None
        raise InternalError(f'strconv.ParseUint: parsing "{text}": invalid syntax', reason="")
    digits = text.lstrip("0")
    if len(digits) > _VERSION_DIGITS or int(digits or "0") > _MAX_VERSION:
        raise InternalError(f'strconv.ParseUint: parsing "{text}": value out of range', reason="")
    return int(digits) if digits else None


def reject_version(metadata: JSONObject) -> None:
    """Raise InternalError if a new object has a resource version. Text that is not a version is ignored."""
    try:
        version = parse_version(metadata.get("resourceVersion") or "")
    except InternalError:
        return
    if version is not None:
        raise InternalError("resourceVersion should not be set on objects to be created", reason="")


def validate(resource: Resource, metadata: JSONObject) -> list[FieldError]:
    """Return the errors of a new object's metadata."""
    errors = [
        *_prefix_errors(resource, metadata),
        *_name_errors(resource, metadata),
        *_label_errors(metadata),
        *_annotation_errors(metadata),
    ]
    errors += _owner_errors(metadata)
    return errors + _finalizer_errors(resource, metadata)


def validate_update(metadata: JSONObject, old: JSONObject) -> list[FieldError]:
    """Return the errors of the change from `old`."""
    errors = [
        invalid(f"metadata.{field}", metadata.get(field) or "", "field is immutable")
        for field in ("name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds")
        if (metadata.get(field) or "") != (old.get(field) or "")
    ]
    if old.get("deletionTimestamp"):
        added = [each for each in metadata.get("finalizers") or () if each not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{each}"' for each in added)
            detail = "no new finalizers can be added if the object is being deleted, found new finalizers "
            errors.append(forbidden("metadata.finalizers", f"{detail}[]string{{{listed}}}"))
    return errors


def _prefix_errors(resource: Resource, metadata: JSONObject) -> list[FieldError]:
    prefix = metadata.get("generateName") or ""
    texts = resource.strategy.name_errors(names.masked_prefix(prefix)) if prefix else []
    return [invalid("metadata.generateName", prefix, text) for text in texts]


def _name_errors(resource: Resource, metadata: JSONObject) -> list[FieldError]:
    name = metadata.get("name") or ""
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    errors = [invalid("metadata.name", name, text) for text in resource.strategy.name_errors(name)]
    if resource.namespaced:
        namespace = metadata.get("namespace") or ""
        errors += named("metadata.namespace", namespace, names.dns1123_label)
    return errors


def _label_errors(metadata: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    labels: dict[str, str] = metadata.get("labels") or {}
    for key, value in labels.items():
        errors += named("metadata.labels", key, names.qualified_name)
        errors += named("metadata.labels", value, names.label_value)
    return errors


def _annotation_errors(metadata: JSONObject) -> list[FieldError]:
    annotations: dict[str, str] = metadata.get("annotations") or {}
    errors = [
        replace(error, value=key)
        for key in annotations
        for error in named("metadata.annotations", key.lower(), names.qualified_name)
    ]
    if sum(len(key) + len(value) for key, value in annotations.items()) > _ANNOTATIONS_LIMIT:
        detail = f"may not be more than {_ANNOTATIONS_LIMIT} bytes"
        errors.append(FieldError("FieldValueTooLong", "metadata.annotations", "", detail))
    return errors


def _owner_errors(metadata: JSONObject) -> list[FieldError]:
    errors: list[FieldError] = []
    controllers: list[str] = []
    path = "metadata.ownerReferences"
    for owner in metadata.get("ownerReferences") or ():
        try:
            group_version = GroupVersion.parse((owner.get("apiVersion") or "").removeprefix("/"))
        except ValueError:
            errors.append(invalid(f"{path}.apiVersion", owner.get("apiVersion") or "", "version must not be empty"))
        else:
            if str(group_version) == "v1" and owner.get("kind") == "Event":
                errors.append(invalid(path, owner, "/v1, Kind=Event is disallowed from being an owner"))
        errors += [
            invalid(f"{path}.{field}", "", "must not be empty")
            for field in ("kind", "name", "uid")
            if not owner.get(field)
        ]
        if owner.get("controller"):
            controllers.append(owner.get("name") or "")
    if len(controllers) > 1:
        detail = (
            "Only one reference can have Controller set to true. "
            f'Found "true" in references for {controllers[0]} and {controllers[1]}'
        )
        errors.append(invalid(path, metadata["ownerReferences"], detail))
    return errors


def _finalizer_errors(resource: Resource, metadata: JSONObject) -> list[FieldError]:
    finalizers: list[str] = metadata.get("finalizers") or []
    errors: list[FieldError] = []
    for finalizer in finalizers:
        errors += named("metadata.finalizers", finalizer, names.qualified_name)
    if _COLLECTOR_FINALIZERS.issubset(finalizers):
        detail = "finalizer orphan and foregroundDeletion cannot be both set"
        errors.append(invalid("metadata.finalizers", finalizers, detail))
    detail = "name is neither a standard finalizer name nor is it fully qualified"
    return errors + [
        invalid(f"metadata.finalizers[{index}]", finalizer, detail)
        for index, finalizer in enumerate(finalizers)
        if not _may_be_plain(resource, finalizer)
    ]


def _may_be_plain(resource: Resource, finalizer: str) -> bool:
    """Return whether a finalizer without a domain is allowed. Built-in kinds allow only a few standard ones."""
    return "/" in finalizer or finalizer in _PLAIN_FINALIZERS or resource.custom or resource.group == _EXTENSIONS
