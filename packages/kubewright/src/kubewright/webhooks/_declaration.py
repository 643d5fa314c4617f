"""Declares admission webhooks: functions that fill in defaults, and functions that check.

    @defaulter(WebServer)
    def set_defaults(ctx: AdmissionContext[WebServer]) -> None:
        ctx.object.spec.replicas = ctx.object.spec.replicas or 3

    @validator(WebServer, operations=["CREATE", "UPDATE", "DELETE"])
    async def check(ctx: AdmissionContext[WebServer]) -> list[FieldError]:
        ...

A webhook is a declaration without any state of a run. It is registered nowhere, and several Managers may serve it. The
configurations of the API server, and the RBAC rules, follow from the declaration.

Follows controller-runtime's pkg/builder (WithDefaulter, WithValidator) and kubebuilder's `+kubebuilder:webhook`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeAlias, TypeVar, Unpack, cast

import msgspec

from kubewright.controllers._rbac import READ, WRITE, rule
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.fields import FieldError
from kubewright.models import APIResource, Object
from kubewright.models._rbac import PolicyRule
from kubewright.webhooks._context import AdmissionContext, RawAdmissionContext
from kubewright.webhooks._names import default_name, default_path
from kubewright.webhooks._registration import Registration, ReinvocationPolicy, WebhookOptions
from kubewright.webhooks._review import AdmissionResponse, Operation

T = TypeVar("T", bound=Object)
F = TypeVar("F", bound=Callable[..., Any])

DefaultFunction: TypeAlias = Callable[[AdmissionContext[T]], Awaitable[None] | None]
"""Changes `ctx.object`. Raises an APIError, such as Forbidden, to deny the request."""

Verdict: TypeAlias = Sequence[FieldError] | None
"""The errors of an object, by field. None or no error allows the request."""

ValidateFunction: TypeAlias = Callable[[AdmissionContext[T]], Awaitable[Verdict] | Verdict]
"""Returns the errors of `ctx.object`. Raises an APIError, such as Forbidden, to deny the request otherwise."""

RawFunction: TypeAlias = Callable[[RawAdmissionContext], Awaitable[AdmissionResponse] | AdmissionResponse]
"""Answers a review."""

_NEEDS: Final = ("cached", "writes", "rules")
"""The options that are about what a webhook reads and writes."""
_WRITES: Final[Sequence[Operation]] = ("CREATE", "UPDATE")
_OWN_TYPE: Final = {
    "attach": "PodAttachOptions",
    "binding": "Binding",
    "eviction": "Eviction",
    "exec": "PodExecOptions",
    "portforward": "PodPortForwardOptions",
    "scale": "Scale",
    "token": "TokenRequest",
}
"""The kinds of the objects of subresources that are not the object itself."""


class AdmissionWebhook(msgspec.Struct, frozen=True, eq=False):
    """A webhook that reviews writes: a `Defaulter`, a `Validator` or a `RawWebhook`."""

    registration: Registration
    """How an API server calls it."""
    cached: Sequence[type[Object]]
    writes: Sequence[type[Object]]
    rules: Sequence[PolicyRule]

    __hash__ = object.__hash__  # a Struct would hash its fields, and some of them are lists

    @property
    def name(self) -> str:
        """The fully qualified name, for logs, metrics and the API server's configuration."""
        return self.registration.name

    @property
    def path(self) -> str:
        """Where a manager serves it."""
        return self.registration.path

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the RBAC rules that this webhook needs, and no others."""
        return [
            *(rule(kind, READ) for kind in self.cached),
            *(rule(kind, WRITE) for kind in self.writes),
            *self.rules,
        ]


class Defaulter(AdmissionWebhook, Generic[T], frozen=True, eq=False):
    """The result of `defaulter`."""

    kind: type[T]
    function: DefaultFunction[T]


class Validator(AdmissionWebhook, Generic[T], frozen=True, eq=False):
    """The result of `validator`."""

    kind: type[T]
    function: ValidateFunction[T]


class RawWebhook(AdmissionWebhook, frozen=True, eq=False):
    """The result of `admission_handler`."""

    function: RawFunction


def defaulter(
    kind: type[T],
    *,
    name: str | None = None,
    path: str | None = None,
    operations: Sequence[Operation] = _WRITES,
    subresources: Sequence[str] = ("",),
    parent: type[Object] | None = None,
    reinvocation_policy: ReinvocationPolicy = "Never",
    **options: Unpack[WebhookOptions],
) -> Callable[[DefaultFunction[T]], Defaulter[T]]:
    """Make a mutating webhook of a function, sync or async, that changes `ctx.object`.

    name: fully qualified, unique in a manager. Default: kubebuilder's, such as `mwebserver-v1.kb.io`.
    path: where a manager serves it, unique in a manager. Default: kubebuilder's: `/mutate-my-domain-v1-webserver`.
    operations: by default create and update. An object that is deleted cannot be changed, but its deletion denied.
    subresources: which subresources are reviewed, such as `["status"]`; "" is the object itself, the default.
    parent: the kind that has the subresources, if their objects are of another kind:
        `@defaulter(Scale, parent=WebServer, subresources=["scale"])`.
    reinvocation_policy: "IfNeeded" calls the webhook again if a later one changed the object. It must be idempotent.
    options: see `WebhookOptions`.

    The answer is a JSON patch with the fields that the function changed, and no others: fields that the class does not
    know, and fields whose form would differ after decoding and encoding, stay as they were sent.

    Raises ConfigError for arguments that make no sense.
    """
    target = _Target.of("defaulter", kind, parent, operations, subresources, mutating=True)

    def declare(function: DefaultFunction[T]) -> Defaulter[T]:
        _check_function(function, f"AdmissionContext[{kind.__name__}]")
        made = target.registration(name, path, options, reinvocation_policy)
        return Defaulter(registration=made, kind=kind, function=function, **_needs(options))

    return declare


def validator(
    kind: type[T],
    *,
    name: str | None = None,
    path: str | None = None,
    operations: Sequence[Operation] = _WRITES,
    subresources: Sequence[str] = ("",),
    parent: type[Object] | None = None,
    **options: Unpack[WebhookOptions],
) -> Callable[[ValidateFunction[T]], Validator[T]]:
    """Make a validating webhook of a function, sync or async, that returns the errors of `ctx.object`.

    Its arguments are those of `defaulter`. `ctx.old_object` is the stored object, on an update and a delete.

    Errors become an Invalid with a cause for each field, in the API server's words. An APIError that the function
    raises, such as Forbidden, denies the request with its Status. `ctx.warn` adds a warning in any case.

    Raises ConfigError for arguments that make no sense.
    """
    target = _Target.of("validator", kind, parent, operations, subresources, mutating=False)

    def declare(function: ValidateFunction[T]) -> Validator[T]:
        _check_function(function, f"AdmissionContext[{kind.__name__}]")
        made = target.registration(name, path, options)
        return Validator(registration=made, kind=kind, function=function, **_needs(options))

    return declare


def admission_handler(
    path: str,
    *,
    name: str,
    mutating: bool = False,
    groups: Sequence[str],
    versions: Sequence[str],
    resources: Sequence[str],
    operations: Sequence[Operation],
    reinvocation_policy: ReinvocationPolicy = "Never",
    **options: Unpack[WebhookOptions],
) -> Callable[[RawFunction], RawWebhook]:
    """Make a webhook of a function, sync or async, that answers reviews of any kind with an `AdmissionResponse`.

    groups, versions, resources: which requests it reviews. "" is the core group, "*" means all. "*" of `resources`
    excludes subresources, which "*/*" includes.
    options: see `WebhookOptions`.

        @admission_handler("/audit", name="audit.shop.example.com", groups=["*"], versions=["*"], resources=["*/*"],
                           operations=["DELETE"], failure_policy="Ignore")
        async def audit(ctx: RawAdmissionContext) -> AdmissionResponse:
            ctx.log.info("Object deleted", kind=ctx.request.kind, user=ctx.user.name)
            return AdmissionResponse()

    Raises ConfigError for arguments that make no sense.
    """
    registration = Registration(
        name=name,
        path=path,
        mutating=mutating,
        groups=_tuple(groups),
        versions=_tuple(versions),
        resources=_tuple(resources),
        operations=_tuple(operations),
        reinvocation_policy=reinvocation_policy,
        **_settings(options),
    )

    def declare(function: RawFunction) -> RawWebhook:
        _check_function(function, "RawAdmissionContext")
        return RawWebhook(registration=registration, function=function, **_needs(options))

    return declare


class _Target(msgspec.Struct, frozen=True):
    """The writes that a webhook reviews."""

    api: APIResource
    """Of the kind that has the subresources."""
    operations: Sequence[Operation]
    subresources: Sequence[str]
    mutating: bool

    @classmethod
    def of(
        cls,
        decorator: str,
        kind: type[Object],
        parent: type[Object] | None,
        operations: Sequence[Operation],
        subresources: Sequence[str],
        *,
        mutating: bool,
    ) -> _Target:
        if not isinstance(cast("object", kind), type):
            function = getattr(kind, "__qualname__", kind)
            raise ConfigError(f"@{decorator} takes the kind that {function} reviews: write @{decorator}(Kind)")
        where = f"{decorator} for {kind.__name__}"
        if isinstance(subresources, str):
            raise ConfigError(f'{where}: subresources={subresources!r}: write a list: ["{subresources}"]')
        if not subresources:
            raise ConfigError(f'{where}: subresources is empty; leave it out, or write [""] for the object itself')
        if parent is None:
            check_own_object(where, f"@{decorator}", kind, subresources)
        elif "" in subresources:
            raise ConfigError(
                f"{where}: with parent={parent.__name__}, subresources names the subresources whose objects are of "
                f'kind {kind.__name__}, got {list(subresources)}; write subresources=["..."]'
            )
        return cls((parent or kind).__api__, _tuple(operations), tuple(subresources), mutating)

    def registration(
        self,
        name: str | None,
        path: str | None,
        options: WebhookOptions,
        reinvocation_policy: ReinvocationPolicy = "Never",
    ) -> Registration:
        api = self.api
        single = self.subresources[0] if len(self.subresources) == 1 else ""
        return Registration(
            mutating=self.mutating,
            name=default_name(api, single, mutating=self.mutating) if name is None else name,
            path=default_path(api, single, mutating=self.mutating) if path is None else path,
            groups=(api.group,),
            versions=(api.version,),
            resources=tuple(f"{api.plural}/{each}" if each else api.plural for each in self.subresources),
            operations=self.operations,
            reinvocation_policy=reinvocation_policy,
            **_settings(options),
        )


def check_own_object(where: str, call: str, kind: type[Object], subresources: Sequence[str]) -> None:
    """Reject a subresource whose object is of another kind than the kind that has it. `call` takes the kind."""
    for each in subresources:
        other = f"{kind.__name__}ProxyOptions" if each == "proxy" else _OWN_TYPE.get(each)
        if other is not None:
            raise ConfigError(
                f"{where}: the objects of {kind.__api__.plural}/{each} are of kind {other}; write "
                f'{call}({other}, parent={kind.__name__}, subresources=["{each}"])'
            )


def _settings(options: WebhookOptions) -> dict[str, Any]:
    """Return the options that are about the registration."""
    settings: dict[str, Any] = {key: value for key, value in options.items() if key not in _NEEDS}
    settings["match_conditions"] = dict(options.get("match_conditions", {}))
    return settings


def _needs(options: WebhookOptions) -> dict[str, Any]:
    return {
        "cached": tuple(options.get("cached", ())),
        "writes": tuple(options.get("writes", ())),
        "rules": tuple(options.get("rules", ())),
    }


def _tuple(values: Sequence[Any]) -> Any:
    """Return a tuple; a string stays as it is, and is reported later."""
    return values if isinstance(values, str) else tuple(values)


def _check_function(function: Callable[..., object], context: str) -> None:
    name = getattr(function, "__qualname__", str(function))
    if isinstance(function, type) or not callable(function):
        raise ConfigError(f"{name} is not a function; decorate def {name}(ctx: {context})")
    try:
        inspect.signature(function).bind(None)
    except TypeError:
        own = name.rpartition(".")[2]
        raise ConfigError(f"{name} is called with one argument, the context; write def {own}(ctx: {context})") from None
