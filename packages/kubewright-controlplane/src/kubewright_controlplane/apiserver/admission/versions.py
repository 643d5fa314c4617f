"""A write as one webhook or policy sees it: the kind and version that it matches, and the objects in that version.

Follows k8s.io/apiserver pkg/admission/conversion.go and pkg/admission/plugin/webhook/request.
"""

from __future__ import annotations

from functools import cached_property

from kubewright.machinery.errors import DecodeError
from kubewright.machinery.gvk import GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject, copied, equal
from kubewright_controlplane.apiserver.registry.failures import internal_error
from kubewright_controlplane.apiserver.registry.model import Attributes, Resource, View
from kubewright_controlplane.apiserver.registry.objects import converted, encode_json


class VersionedAttributes:
    """A write, in the version of its resource that a webhook or policy matches.

    Documents are converted on first use, and must not be changed. After a change of `attributes.object` it is out of
    date: make a new one.
    """

    def __init__(self, attributes: Attributes, resource: Resource) -> None:
        """`resource` is the one that the rules match: the resource of the write, or an equivalent one."""
        self.attributes = attributes
        self.resource = resource

    @property
    def kind(self) -> GroupVersionKind:
        return kind_of(self.resource, self.attributes.subresource)

    @cached_property
    def object(self) -> JSONObject | None:
        """The new state, in this version; None for DELETE."""
        return self._converted(shown_object(self.attributes))

    @cached_property
    def old_object(self) -> JSONObject | None:
        """The old state, in this version; None for CREATE and CONNECT."""
        return self._converted(shown_old_object(self.attributes))

    @cached_property
    def request(self) -> JSONObject:
        """The fields of an AdmissionRequest (admission.k8s.io/v1), except uid, object and oldObject."""
        attributes = self.attributes
        own, subresource = attributes.resource, attributes.subresource
        request: JSONObject = {
            "kind": _kind_document(self.kind),
            "resource": _resource_document(self.resource.gvr),
            "subResource": subresource,
            "requestKind": _kind_document(kind_of(own, subresource)),
            "requestResource": _resource_document(own.gvr),
            "requestSubResource": subresource,
            "name": "" if attributes.in_collection else attributes.name,
            "namespace": namespace_of(attributes),
        }
        return {key: value for key, value in request.items() if value != ""} | {
            "operation": attributes.operation,
            "userInfo": attributes.user.to_dict(),
            "dryRun": attributes.dry_run,
            "options": _options_document(attributes),
        }

    def replace_object(self, changed: JSONObject, *, keep_unknown: bool = False) -> bool:
        """Make `changed`, a document of this version, the new state of the write. Returns whether that is a change.

        Unknown fields are dropped and defaults are set. With `keep_unknown`, those of a custom resource in its own
        version stay until it is stored. For a built-in kind every call counts as a change, as in a real
        API server, where decoding the document makes another object of it. Raises InternalError for a value of the
        wrong type. This object is out of date after that.
        """
        attributes, own = self.attributes, self.attributes.resource
        assert attributes.object is not None
        before, after = attributes.object, copied(changed)
        if self.kind == self.resource.gvk:
            prune = not (keep_unknown and own.custom and self.resource is own)
            after = converted(_conformed(self.resource, after, prune=prune), self.resource, own)
        below = own.subresources.get(attributes.subresource) if attributes.subresource else None
        if isinstance(below, View):
            assert attributes.old_object is not None
            after = below.write(after, attributes.old_object if below.kind is None else before, attributes)
        attributes.object = after
        return not own.custom or not equal(before, after)

    def _converted(self, obj: JSONObject | None) -> JSONObject | None:
        own = self.attributes.resource
        if obj is None:
            return None
        if self.resource is not own and kind_of(own, self.attributes.subresource) == own.gvk:
            return converted(obj, own, self.resource)
        if "kind" in obj and "apiVersion" in obj:
            return obj
        return {"kind": self.kind.kind, "apiVersion": self.kind.api_version, **obj}


def _conformed(resource: Resource, obj: JSONObject, *, prune: bool) -> JSONObject:
    api_version, kind = obj.get("apiVersion") or "", obj.get("kind") or ""
    if resource.custom and not kind:
        raise internal_error(f"Object 'Kind' is missing in '{encode_json(obj).decode()}'")
    obj["apiVersion"], obj["kind"] = api_version or resource.api_version, kind or resource.kind
    if (obj["apiVersion"], obj["kind"]) != (resource.api_version, resource.kind):
        raise internal_error(f"{api_version}, Kind={kind} is not {resource.api_version}, Kind={resource.kind}")
    if obj.get("metadata") is None:
        obj["metadata"] = {}
    try:
        if prune:
            resource.schema.prune(obj)
    except DecodeError as error:
        raise internal_error(str(error)) from error
    resource.schema.default(obj)
    resource.strategy.default(obj)
    return obj


def kind_of(resource: Resource, subresource: str) -> GroupVersionKind:
    """Return the kind of the documents that are sent to a resource, or to its subresource."""
    below = resource.subresources.get(subresource) if subresource else None
    return resource.gvk if below is None or below.kind is None else below.kind


def namespace_of(attributes: Attributes) -> str:
    """Return the namespace of a write. That of a Namespace is its own name."""
    if attributes.resource.plural == "namespaces" and not attributes.resource.group:
        return attributes.name
    return attributes.namespace


def shown_object(attributes: Attributes) -> JSONObject | None:
    """Return the new state as clients see it, such as a Scale for a write through `scale`."""
    return _shown(attributes, attributes.object)


def shown_old_object(attributes: Attributes) -> JSONObject | None:
    """Return the old state as clients see it."""
    return _shown(attributes, attributes.old_object)


def _shown(attributes: Attributes, obj: JSONObject | None) -> JSONObject | None:
    below = attributes.resource.subresources.get(attributes.subresource) if attributes.subresource else None
    if obj is None or not isinstance(below, View) or below.kind is None:
        return obj
    return below.read(obj)


def _options_document(attributes: Attributes) -> JSONObject | None:
    """Return the options of the request. Those of a patch are shown as those of what the patch does."""
    options = attributes.options
    if not options or attributes.operation not in ("CREATE", "UPDATE"):
        return options or None
    kind = "CreateOptions" if attributes.operation == "CREATE" else "UpdateOptions"
    return {key: value for key, value in options.items() if key != "force"} | {"kind": kind}


def _kind_document(kind: GroupVersionKind) -> JSONObject:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _resource_document(resource: GroupVersionResource) -> JSONObject:
    return {"group": resource.group, "version": resource.version, "resource": resource.resource}
