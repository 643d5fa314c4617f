"""Conversion between the versions of a kind: one version is the hub, and every other version, a spoke, converts to it.

    def to_v1(old: v1alpha1.WebServer) -> v1.WebServer:
        return v1.WebServer(spec=v1.WebServerSpec(replicas=old.spec.size))

    def from_v1(new: v1.WebServer) -> v1alpha1.WebServer:
        return v1alpha1.WebServer(spec=v1alpha1.WebServerSpec(size=new.spec.replicas))

    conversion = Conversion(v1.WebServer, Spoke(v1alpha1.WebServer, convert_to=to_v1, convert_from=from_v1))

Guarantees
    Any version converts to any other, through the hub.
    An object keeps its metadata. If a function returns an object with metadata of its own, the object gets the labels
    and annotations of that metadata, and nothing else: an API server ignores the rest.
    With `lossless`, what a version cannot hold is stored in the annotation `<group>/conversion-data`, and restored when
    the object comes back, unless a client has changed the field in the other version.
Not guaranteed
    Fields that a class does not know. The CRD of the class does not have them either, so an API server has dropped them
    before.
    What a client that replaces the whole object, its annotations included, does not send back.

Follows controller-runtime's pkg/conversion; source:
https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definition-versioning/.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, Generic, TypeVar

import msgspec

from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.json import JSONObject, compact, is_object, read_object
from kubewright.models import CustomResource, Object, codec
from kubewright.models._meta import ObjectMeta
from kubewright.models._rbac import PolicyRule
from kubewright.models._tolerance import completed
from kubewright.models._values import plain
from kubewright.webhooks._lossless import difference, restore

H = TypeVar("H", bound=CustomResource)
S = TypeVar("S", bound=CustomResource)
U = TypeVar("U", bound=CustomResource)

DATA: Final = "conversion-data"
"""The name of the annotation, after the group and a slash."""

_LARGEST: Final = 200 << 10
"""Bytes of the annotation. All annotations of an object have at most 256 KiB."""
_HEAD: Final = ("apiVersion", "kind", "metadata")


class Spoke(msgspec.Struct, Generic[S, H], frozen=True, eq=False):
    """A version of a kind that is not the hub, and its conversion to and from the hub.

    The functions are called for each object that is read or written in another version than the stored one, so they
    only compute. They may leave `metadata` out.
    """

    kind: type[S]
    convert_to: Callable[[S], H]
    """Returns the object in the hub's version."""
    convert_from: Callable[[H], S]
    """Returns the object in this version."""
    lossless: bool = True
    """Store what a version cannot hold in an annotation. Without it, such fields are lost by a write."""


class ConversionError(DecodeError):
    """An object cannot be converted. The message names it, both versions and the reason."""


class _Step(msgspec.Struct, frozen=True):
    """A conversion between the hub and a spoke."""

    source: type[CustomResource]
    target: type[CustomResource]
    there: Callable[[Any], CustomResource]
    back: Callable[[Any], CustomResource]
    lossless: bool


class Conversion(Generic[H]):
    """The versions of one kind. A Manager that has it in `webhooks` serves it at `/convert`."""

    def __init__(self, hub: type[H], *spokes: Spoke[Any, H]) -> None:
        """`hub` is usually the version that is stored. Raises ConfigError if the classes are not versions of a kind."""
        self.hub = hub
        self.spokes = spokes
        self._check()
        self._annotation = f"{hub.__api__.group}/{DATA}"
        self._kinds = {each.__api__.version: each for each in self.kinds}
        self._spokes = {each.kind.__api__.version: each for each in spokes}

    @property
    def cached(self) -> Sequence[type[Object]]:
        """The kinds that it reads from the cache: none. Conversions compute."""
        return ()

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the RBAC rules that it needs: none."""
        return []

    @property
    def kinds(self) -> tuple[type[CustomResource], ...]:
        """The classes of all versions, the hub first."""
        return (self.hub, *(spoke.kind for spoke in self.spokes))

    def convert(self, obj: CustomResource, to: type[U]) -> U:
        """Convert `obj` to another version. Raises ConversionError, and what the functions raise."""
        document = self.convert_document(codec.encode(obj), to.__api__.version)
        return codec.decode(to, msgspec.json.encode(document))

    def convert_document(self, data: bytes, version: str) -> JSONObject:
        """Convert an encoded object to `version`, which is not its own. Raises ConversionError, and what the functions
        raise.
        """
        document = self._read(data)
        source = document["apiVersion"].rpartition("/")[2]
        if version not in self._kinds:
            raise ConversionError(f"there is no version {version}; known are {', '.join(self._kinds)}")
        if source == version:
            raise ConversionError(f"the object has the version {version} already")
        for step in self._steps(source, version):
            document = self._take(step, document)
        return document

    def _read(self, data: bytes) -> JSONObject:
        try:
            document = read_object(data)
        except msgspec.DecodeError as error:
            raise ConversionError(f"not a JSON object: {error}") from error
        given = (document.get("apiVersion"), document.get("kind"))
        known = [(each.__api__.api_version, each.__api__.kind) for each in self.kinds]
        if given not in known:
            raise ConversionError(f"{given[1]} of {given[0]} is not a version of {known[0][1]}")
        if not is_object(document.get("metadata")):
            document["metadata"] = {}
        return document

    def _steps(self, source: str, target: str) -> list[_Step]:
        steps: list[_Step] = []
        if spoke := self._spokes.get(source):
            steps.append(_Step(spoke.kind, self.hub, spoke.convert_to, spoke.convert_from, spoke.lossless))
        if spoke := self._spokes.get(target):
            steps.append(_Step(self.hub, spoke.kind, spoke.convert_from, spoke.convert_to, spoke.lossless))
        return steps

    def _take(self, step: _Step, document: JSONObject) -> JSONObject:
        """Convert a document, and keep in its annotation what the target lacks."""
        metadata: JSONObject = dict(document["metadata"])
        annotations: JSONObject = dict(metadata.get("annotations") or {})
        kept = _read_kept(annotations.pop(self._annotation, "")) if step.lossless else {}
        if step.lossless:
            metadata["annotations"] = annotations
        obj = _decoded(step.source, {**document, "metadata": metadata})
        was = _content(obj) if step.lossless else {}
        made = _call(step.there, obj, step.target)
        _take_over(made.metadata, metadata)
        content = _content(made)
        if step.lossless:
            made.metadata = _with_strings(obj.metadata, metadata)
            content = self._keep(step, was, content, made, metadata, kept)
        if not metadata.get("annotations"):
            metadata.pop("annotations", None)
        api = step.target.__api__
        return {"apiVersion": api.api_version, "kind": api.kind, "metadata": metadata, **content}

    def _keep(
        self,
        step: _Step,
        was: JSONObject,
        content: JSONObject,
        made: CustomResource,
        metadata: JSONObject,
        kept: JSONObject,
    ) -> JSONObject:
        """Return the content with what an earlier conversion kept, and keep in `metadata` what this one loses."""
        if record := kept.pop(step.target.__api__.version, None):
            content = restore(record, content)
            made = codec.from_dict(step.target, {**content, "metadata": metadata})
        lost = difference(was, _content(_call(step.back, made, step.source)))
        kept.pop(step.source.__api__.version, None)
        if lost is not None:
            kept[step.source.__api__.version] = lost
        if kept:
            text = compact(kept)
            if len(text.encode()) > _LARGEST:
                raise ConversionError(
                    f"version {step.target.__api__.version} lacks {len(text)} bytes of version "
                    f"{step.source.__api__.version}, more than an annotation holds; add fields for them to the version"
                )
            metadata["annotations"] = {**(metadata.get("annotations") or {}), self._annotation: text}
        return content

    def _check(self) -> None:
        where = f"Conversion of {self.hub.__name__}"
        if not self.spokes:
            raise ConfigError(f"{where}: a kind with one version needs no conversion; add a Spoke for another version")
        hub = self.hub.__api__
        for spoke in self.spokes:
            api = spoke.kind.__api__
            for what in ("group", "kind", "plural", "namespaced"):
                mine, its = getattr(hub, what), getattr(api, what)
                if mine != its:
                    raise ConfigError(
                        f"{where}: {_class(self.hub)} has {what} {mine!r}, but {_class(spoke.kind)} has {its!r}; all "
                        f"versions of a kind have the same"
                    )
            for function in (spoke.convert_to, spoke.convert_from):
                _check_function(function, f"{where}: Spoke({_class(spoke.kind)})")
        versions = Counter(each.__api__.version for each in self.kinds)
        repeated = [version for version, count in versions.items() if count > 1]
        if repeated:
            raise ConfigError(
                f"{where}: version {repeated[0]} is named twice; there is one hub, and a Spoke for each other version"
            )


def _call(
    function: Callable[[Any], CustomResource], obj: CustomResource, wanted: type[CustomResource]
) -> CustomResource:
    made: object = function(obj)
    if not isinstance(made, wanted):
        raise TypeError(f"{_name(function)} returned {type(made).__name__}, not {_class(wanted)}")
    return made


def _content(obj: CustomResource) -> JSONObject:
    content: JSONObject = plain(obj)
    for key in _HEAD:
        content.pop(key, None)
    return content


def _take_over(made: ObjectMeta, metadata: JSONObject) -> None:
    """Take labels and annotations from metadata that a function returned, unless it left the metadata out."""
    if made == ObjectMeta():
        return
    for name, values in (("labels", made.labels), ("annotations", made.annotations)):
        if values:
            metadata[name] = dict(values)
        else:
            metadata.pop(name, None)


def _decoded(kind: type[CustomResource], document: JSONObject) -> CustomResource:
    """Return the object of a document. Raises DecodeError.

    To find what an apply removes, an API server converts objects without the fields that nobody owns in their version.
    Fields that such an object lacks have zero values.
    """
    try:
        return codec.from_dict(kind, document)
    except DecodeError:
        return codec.from_dict(kind, completed(document, kind))


def _with_strings(own: ObjectMeta, metadata: JSONObject) -> ObjectMeta:
    """Return the metadata of an object with the labels and annotations of `metadata`: what the function that converts
    it back finds.
    """
    made = copy(own)
    made.labels = dict(metadata.get("labels") or {})
    made.annotations = dict(metadata.get("annotations") or {})
    return made


def _read_kept(text: object) -> JSONObject:
    """Return what earlier conversions kept, by version. Any client may write the annotation. A text that is not JSON is
    dropped, because an object that cannot be converted could not even be deleted.
    """
    if not isinstance(text, str) or not text:
        return {}
    try:
        return read_object(text.encode())
    except msgspec.DecodeError:
        return {}


def _check_function(function: Callable[..., object], where: str) -> None:
    name = _name(function)
    if inspect.iscoroutinefunction(function):
        raise ConfigError(f"{where}: {name} is async, but a conversion only computes; write def")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        raise ConfigError(f"{where}: {name} is called with one argument, the object to convert") from None


def _name(function: Callable[..., object]) -> str:
    return str(getattr(function, "__qualname__", function))


def _class(cls: type[CustomResource]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
