"""Custom resources: kinds that a user defines.

    class WebServer(CustomResource, group="my.domain", version="v1", short_names=["web"]):
        \"\"\"WebServer is the Schema for the webservers API.\"\"\"

        spec: WebServerSpec
        status: WebServerStatus = field(default_factory=WebServerStatus)

A class is one version of a kind. With a field `status` it has the status subresource. What an API server would reject
raises ModelError: names, types, defaults and columns at the class statement; patterns and CEL rules when the CRD is
made or an object is validated, because only kubewright-controlplane can compile them.

Follows apiextensions.k8s.io/v1 and the markers of controller-gen (resource, printcolumn, subresource:scale, ...).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Self, TypeAlias, cast, get_args

import msgspec

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import ModelError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright.machinery.names import dns1035_label, dns1123_subdomain
from kubewright.markers import Marker
from kubewright.models._annotations import annotations_of
from kubewright.models._apiresource import APIResource
from kubewright.models._model import ModelType
from kubewright.models._resource import Object
from kubewright.models._struct import Struct
from kubewright.models._types import Unwrapped, unwrap

ColumnType: TypeAlias = Literal["boolean", "date", "integer", "number", "string"]
"""The type of a column of `kubectl get`. A date is printed as an age."""
ColumnFormat: TypeAlias = Literal["byte", "date", "date-time", "double", "float", "int32", "int64", "password"]
"""The format of a column, for clients that print it in their own way."""


class PrintColumn(msgspec.Struct, frozen=True):
    """A column of `kubectl get`: the value at `json_path` (`.spec.image`). Above priority 0 only with `-o wide`."""

    name: str
    json_path: str
    type: ColumnType = "string"
    format: ColumnFormat | Literal[""] = ""
    priority: int = 0
    description: str = ""


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource: where `kubectl scale` and autoscalers read and set the number of replicas."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


class Version(msgspec.Struct, frozen=True):
    """How a version of a kind is displayed and served; see the class arguments of CustomResource."""

    columns: tuple[PrintColumn, ...] = ()
    scale: Scale | None = None
    storage: bool = True
    served: bool = True
    deprecated: bool | str = False
    selectable_fields: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class CustomResourceType(ModelType):
    """The metaclass of custom resources: reads the class arguments that describe the kind, and checks them."""

    @classmethod
    def __prepare__(mcls, name: str, bases: tuple[type, ...], /, **options: Any) -> dict[str, object]:
        """Reject a class argument that does not exist, before the body of the class runs."""
        known = [
            each.name for each in inspect.signature(mcls.__new__).parameters.values() if each.kind is each.KEYWORD_ONLY
        ]
        for option in options:
            if option not in known:
                raise ModelError(f"{name}: a kind has no class argument {option!r}{did_you_mean(option, known)}")
        return {}

    def __new__(
        mcls,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        /,
        *,
        group: str = "",
        version: str = "",
        kind: str = "",
        plural: str = "",
        singular: str = "",
        short_names: Sequence[str] = (),
        categories: Sequence[str] = (),
        namespaced: bool = True,
        columns: Sequence[PrintColumn] = (),
        scale: Scale | None = None,
        status_subresource: bool | None = None,
        storage: bool = True,
        served: bool = True,
        deprecated: bool | str = False,
        selectable_fields: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        markers: Sequence[Marker] = (),
    ) -> CustomResourceType:
        if any(isinstance(base, CustomResourceType) for base in bases):  # not for CustomResource itself
            kind = kind or name
            if status_subresource is None:
                status_subresource = _has_status(bases, namespace)
            api = APIResource(
                group=group,
                version=version,
                kind=kind,
                plural=plural or plural_of(kind.lower()),
                singular=singular or kind.lower(),
                namespaced=namespaced,
                short_names=tuple(short_names),
                categories=tuple(categories),
                subresources=(("status",) if status_subresource else ()) + (("scale",) if scale else ()),
            )
            _check_names(name, api, approved="api-approved.kubernetes.io" in (annotations or {}))
            _check_fields(name, namespace)
            namespace["__api__"] = api
            namespace["__served_as__"] = Version(
                columns=tuple(columns),
                scale=scale,
                storage=storage,
                served=served,
                deprecated=deprecated,
                selectable_fields=tuple(selectable_fields),
                labels=dict(labels or {}),
                annotations=dict(annotations or {}),
            )
            _check_served(name, namespace["__served_as__"])
        cls = super().__new__(mcls, name, bases, namespace, markers=markers)
        assert isinstance(cls, CustomResourceType)
        if "__served_as__" in namespace:
            _check_paths(cast("type[Struct]", cls), namespace["__served_as__"])
        return cls


_PLURALS: Final = (
    (r"sis$", "ses"),
    (r"(s|x|z|ch|sh)$", r"\1es"),
    (r"([^aeiou])y$", r"\1ies"),
    (r"$", "s"),
)
"""The usual rules of English, as in kubebuilder; irregular nouns are left to the author."""


def plural_of(singular: str) -> str:
    """Return the default plural: `webserver` -> `webservers`, `policy` -> `policies`, `box` -> `boxes`."""
    for pattern, ending in _PLURALS:
        plural, found = re.subn(pattern, ending, singular, count=1)
        if found:
            return plural
    raise AssertionError("the last rule matches every noun")


def _has_status(bases: tuple[type, ...], namespace: dict[str, Any]) -> bool:
    return "status" in annotations_of(namespace) or any(hasattr(base, "status") for base in bases)


def _check_names(name: str, api: APIResource, *, approved: bool) -> None:
    if not api.group or not api.version:
        raise ModelError(
            f"{name}: a kind needs a group and a version; "
            f'write class {name}(CustomResource, group="example.com", version="v1")'
        )
    if "." not in api.group or dns1123_subdomain(api.group):
        raise ModelError(f'{name}: group "{api.group}" is not a domain of at least two parts, like "apps.example.com"')
    if re.search(r"(^|\.)(k8s|kubernetes)\.io$", api.group) and not approved:
        raise ModelError(
            f'{name}: group "{api.group}" is reserved for Kubernetes (*.k8s.io and *.kubernetes.io); use your domain, '
            "or name the approval in the annotation api-approved.kubernetes.io"
        )
    if not re.fullmatch("[A-Z][A-Za-z0-9]{0,62}", api.kind):
        raise ModelError(f'{name}: kind "{api.kind}" must be CamelCase, with at most 63 letters and digits')
    labels = {"version": (api.version,), "plural": (api.plural,), "singular": (api.singular,)}
    for what, values in (labels | {"short name": api.short_names, "category": api.categories}).items():
        for value in values:
            if dns1035_label(value):
                raise ModelError(
                    f'{name}: {what} "{value}" must start with a letter, '
                    'and consist of lower-case letters, digits and "-"'
                )


def _check_fields(name: str, namespace: dict[str, Any]) -> None:
    for field in annotations_of(namespace):
        if field in ("api_version", "kind", "metadata"):
            raise ModelError(f"{name}.{field}: every kind has this field; remove it")


def _paths(served: Version) -> dict[str, tuple[str, tuple[str, ...]]]:
    """Return the JSON paths in class arguments, and what each may start with."""
    paths: dict[str, tuple[str, tuple[str, ...]]] = {
        f'the JSON path of column "{each.name}"': (each.json_path, (".",)) for each in served.columns
    }
    paths |= {f'the selectable field "{path}"': (path, (".",)) for path in served.selectable_fields}
    if scale := served.scale:
        paths["Scale.replicas"] = (scale.replicas, (".spec.",))
        paths["Scale.status_replicas"] = (scale.status_replicas, (".status.",))
        if scale.selector:
            paths["Scale.selector"] = (scale.selector, (".spec.", ".status."))
    return paths


def _check_served(name: str, served: Version) -> None:
    for column in served.columns:
        _check_column(name, column)
    for what, (path, starts) in _paths(served).items():
        if not path.startswith(starts):
            raise ModelError(f'{name}: {what} is "{path}"; it must start with {" or ".join(starts)}')
    if isinstance(served.deprecated, str) and len(served.deprecated) > 256:
        raise ModelError(f"{name}: the warning of a deprecated version must not exceed 256 characters")


def _check_column(name: str, column: PrintColumn) -> None:
    """Reject a column that an API server would reject; type checkers find the same."""
    if not column.name:
        raise ModelError(f'{name}: the column of "{column.json_path}" needs a name')
    allowed = {"type": (column.type, get_args(ColumnType)), "format": (column.format, ("", *get_args(ColumnFormat)))}
    for what, (value, values) in allowed.items():
        if value not in values:
            *others, last = filter(None, values)
            raise ModelError(
                f'{name}: the {what} of column "{column.name}" is "{value}"; it must be {", ".join(others)} or {last}'
            )


def _check_paths(cls: type[Struct], served: Version) -> None:
    """Reject paths to fields that do not exist: the column would stay empty, and `kubectl scale` would fail."""
    for what, (path, _) in _paths(served).items():
        steps = re.match(r"[\w.]*", path)
        assert steps is not None
        holder: Any = cls
        for step in steps[0].strip(".").split("."):
            fields = {field.encode_name: field.type for field in msgspec.structs.fields(holder)}
            if holder is cls:
                fields |= {"apiVersion": str, "kind": str}
            if step not in fields:
                hint = did_you_mean(step, fields)
                raise ModelError(f'{cls.__name__}: {what} is "{path}"; {holder.__name__} has no field "{step}"{hint}')
            found = unwrap(fields[step], cls.__name__)
            if _keeps_anything(found) or not (isinstance(found.type, type) and issubclass(found.type, Struct)):
                break  # a scalar, a list, a map, or anything
            holder = found.type


def _keeps_anything(found: Unwrapped) -> bool:
    return any(each.shape or each.name == "PreserveUnknownFields" for each in found.markers)


class CustomResource(Object, metaclass=CustomResourceType):
    """An object of a kind that a user defines.

    Class arguments
        group, version      the kind's API group, a domain, and which version of the kind the class is
        kind                by default the name of the class; `plural` and `singular` follow from it in lower case
        short_names         other names for `kubectl get`; `categories`: lists that it belongs to, like `all`
        namespaced          False for a cluster-scoped kind
        columns             what `kubectl get` prints in addition to the name
        scale               gives the kind the scale subresource
        status_subresource  False if the status is written with the rest; by default a field `status` enables it
        storage, served     whether objects are stored in this version (exactly one), and whether clients may use it
        deprecated          True, or the warning that clients of this version receive
        selectable_fields   JSON paths that field selectors may use
        labels, annotations of the CRD itself
        markers             markers of the object as a whole, like CEL rules
    """

    __served_as__: ClassVar[Version]

    @classmethod
    def validate(cls, obj: Self | JSONObject, old: Self | JSONObject | None = None) -> list[FieldError]:
        """Return the errors for which an API server would reject `obj`, in its words: constraints and CEL rules.

        `old` is the object before an update: rules that compare with it are checked, and errors in unchanged fields
        are left out. `obj` is validated with the defaults of its type, including its status. `obj` and `old` are not
        changed.

        Raises ModelError if an API server would reject the CRD, for example because a CEL rule does not compile. Raises
        DecodeError if `metadata` is not an object, and ConfigError if kubewright-controlplane is not installed,
        which has the rules: `pip install 'kubewright[dev]'`.
        """
        from kubewright.models._validation import validate  # imported lazily: loads the schema package

        return validate(cls, obj, old)
