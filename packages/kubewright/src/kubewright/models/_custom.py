"""Custom resources: kinds that a user declares.

    class WebServer(CustomResource, group="my.domain", version="v1", short_names=["web"]):
        \"\"\"WebServer is the Schema for the webservers API.\"\"\"

        spec: WebServerSpec
        status: WebServerStatus = field(default_factory=WebServerStatus)

A class is one version of a kind. It has the status subresource when it has a field `status`. What the API server would
refuse is a ModelError at the class statement.

Follows apiextensions.k8s.io/v1 and the markers of controller-gen (resource, printcolumn, subresource:scale, ...).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, Self

import msgspec

from kubewright.machinery.errors import ModelError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject
from kubewright.machinery.names import dns1035_label, dns1123_subdomain
from kubewright.markers import Marker
from kubewright.models._annotations import annotations_of
from kubewright.models._model import ModelType
from kubewright.models._plural import plural_of
from kubewright.models._resource import APIResource, Object


class PrintColumn(msgspec.Struct, frozen=True):
    """A column of `kubectl get`: the value at `json_path` (`.spec.image`). Above priority 0 only with `-o wide`."""

    name: str
    json_path: str
    type: Literal["integer", "number", "string", "boolean", "date"] = "string"
    format: str = ""
    priority: int = 0
    description: str = ""


class Scale(msgspec.Struct, frozen=True):
    """The scale subresource: where `kubectl scale` and autoscalers find and set the number of replicas."""

    replicas: str = ".spec.replicas"
    status_replicas: str = ".status.replicas"
    selector: str = ""


class Version(msgspec.Struct, frozen=True):
    """How a version of a kind is shown and served; see the class arguments of CustomResource."""

    columns: tuple[PrintColumn, ...] = ()
    scale: Scale | None = None
    storage: bool = True
    served: bool = True
    deprecated: bool | str = False
    selectable_fields: tuple[str, ...] = ()
    labels: Mapping[str, str] = {}
    annotations: Mapping[str, str] = {}


class CustomResourceType(ModelType):
    """The class of custom resources' classes: takes what the class statement says of the kind, and checks it."""

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
        return cls


def _has_status(bases: tuple[type, ...], namespace: dict[str, Any]) -> bool:
    return "status" in annotations_of(namespace) or any(hasattr(base, "status") for base in bases)


def _check_names(name: str, api: APIResource, *, approved: bool) -> None:
    if not api.group or not api.version:
        raise ModelError(
            f"{name}: a kind has a group and a version; "
            f'write class {name}(CustomResource, group="example.com", version="v1")'
        )
    if "." not in api.group or dns1123_subdomain(api.group):
        raise ModelError(f'{name}: group "{api.group}" is not a domain of at least two parts, like "apps.example.com"')
    if re.search(r"(^|\.)(k8s|kubernetes)\.io$", api.group) and not approved:
        raise ModelError(
            f'{name}: group "{api.group}" is Kubernetes\' own (*.k8s.io and *.kubernetes.io); use your domain, '
            "or say in the annotation api-approved.kubernetes.io where it was approved"
        )
    if not re.fullmatch("[A-Z][A-Za-z0-9]{0,62}", api.kind):
        raise ModelError(f'{name}: kind "{api.kind}" is not in CamelCase, of letters and digits, 63 at most')
    labels = {"version": (api.version,), "plural": (api.plural,), "singular": (api.singular,)}
    for what, values in (labels | {"short name": api.short_names, "category": api.categories}).items():
        for value in values:
            if dns1035_label(value):
                raise ModelError(
                    f'{name}: {what} "{value}" is not of lower-case letters, digits and "-", beginning with a letter'
                )


def _check_fields(name: str, namespace: dict[str, Any]) -> None:
    for field in annotations_of(namespace):
        if field in ("api_version", "kind", "metadata"):
            raise ModelError(f"{name}.{field}: every kind has it already; leave it out")


def _check_served(name: str, served: Version) -> None:
    paths: dict[str, tuple[str, tuple[str, ...]]] = {
        f'the JSON path of column "{each.name}"': (each.json_path, (".",)) for each in served.columns
    }
    paths |= {f'the selectable field "{path}"': (path, (".",)) for path in served.selectable_fields}
    if scale := served.scale:
        paths["Scale.replicas"] = (scale.replicas, (".spec.",))
        paths["Scale.status_replicas"] = (scale.status_replicas, (".status.",))
        paths["Scale.selector"] = (scale.selector or ".status.", (".spec.", ".status."))
    for what, (path, starts) in paths.items():
        if not path.startswith(starts):
            raise ModelError(f'{name}: {what} is "{path}"; it starts with {" or ".join(starts)}')
    if isinstance(served.deprecated, str) and len(served.deprecated) > 256:
        raise ModelError(f"{name}: the warning of a deprecated version has at most 256 characters")


class CustomResource(Object, metaclass=CustomResourceType):
    """An object of a kind that a user declares.

    Class arguments
        group, version      the kind's API group, a domain, and which version of the kind the class is
        kind                the class's name unless given; `plural` and `singular` follow from it in lower case
        short_names         what `kubectl get` takes for it too; `categories`: lists that it belongs to, like `all`
        namespaced          False for a kind of the whole cluster
        columns             what `kubectl get` shows, beside the name
        scale               gives the kind the scale subresource
        status_subresource  False where the status is written with the rest; else a field `status` brings it
        storage, served     whether objects are kept in this version (one of them is), and whether clients may use it
        deprecated          True, or the warning that clients of this version get
        selectable_fields   JSON paths that field selectors may name
        labels, annotations of the CRD itself
        markers             what is to be said of the object as a whole, like rules in CEL
    """

    __served_as__: ClassVar[Version]

    @classmethod
    def validate(cls, obj: Self | JSONObject, old: Self | JSONObject | None = None) -> list[FieldError]:
        """What an API server would refuse `obj` for: constraints and CEL rules, in its words; nothing when all is well.

        With `old`, the object before an update: rules that compare with it are checked, and faults in what has not
        changed are not told. `obj` is judged with the defaults of its type, its status too; of its metadata only
        what an API server finds when it reads it. `obj` and `old` stay as they are.

        Raises DecodeError if `metadata` is not an object, and ConfigError if kubewright-controlplane is not installed,
        which has the rules: `pip install 'kubewright[dev]'`.
        """
        from kubewright.models._validation import validate  # imported lazily: loads the schema package

        return validate(cls, obj, old)
