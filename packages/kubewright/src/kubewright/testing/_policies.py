"""Evaluations of admission policies, without a server.

    def test_the_image_is_pinned() -> None:
        result = evaluate(pinned_images, create=WebServer(spec=WebServerSpec(image="nginx:latest")))
        assert not result.allowed

The evaluation is that of the embedded control plane, with the policy, its bindings and parameters as documents.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar, Unpack, cast

import msgspec

from kubewright.client._dynamic import decode_object, encode_object
from kubewright.machinery.errors import ConfigError, Status
from kubewright.machinery.gvk import GroupVersionKind, GroupVersionResource
from kubewright.machinery.json import JSONObject
from kubewright.models import Object, PolicyRule, codec
from kubewright.models._values import plain
from kubewright.policies import Policy, Rule, policy_documents
from kubewright.policies._definitions import definitions_of
from kubewright.testing._decisions import USER, Decision, operation_of
from kubewright.webhooks import User

try:
    from kubewright_controlplane import policies
except ModuleNotFoundError as error:
    raise ConfigError(
        "policies are evaluated by the control plane's code: pip install kubewright-controlplane (in tests)"
    ) from error

R = TypeVar("R", bound=Object | JSONObject)


@dataclass(frozen=True, slots=True)
class Evaluation(Decision, Generic[R]):
    """What an API server does with a request because of a policy."""

    allowed: bool
    matched: bool
    """Whether the policy, one of its bindings and the match conditions concern the request. If not, it is allowed."""
    object: R
    """The object after the changes of a mutating policy. It has the defaults of its kind."""
    status: Status | None
    """Why the request was denied; None if it was allowed."""
    messages: list[str]
    """Of all validations or mutations that failed, whatever the bindings do about them."""
    warnings: list[str]
    audit_annotations: Mapping[str, str]
    """By the key in the policy. Those of audited failures have the API server's key."""


class RequestOptions(TypedDict, total=False):
    """The request that `evaluate` is about.

    name: by default that of the object.
    namespace: the Namespace of the request, or its name. Default: that of the object, else "default".
    subresource: by default the first that the policy matches.
    user: who sends the request.
    permissions: what `authorizer` says that the user may do, in all namespaces. Default: nothing.
    params: the parameters that exist. Those without a namespace are in that of the request.
    dry_run, options: whether nothing would be stored; the CreateOptions and so on, as JSON.
    """

    name: str
    namespace: str | Object | JSONObject
    subresource: str
    user: User
    permissions: Sequence[PolicyRule]
    params: Object | JSONObject | Sequence[Object | JSONObject]
    dry_run: bool
    options: JSONObject


def evaluate(
    policy: Policy,
    *,
    create: R | None = None,
    update: R | None = None,
    old: R | None = None,
    delete: R | None = None,
    connect: R | None = None,
    **request: Unpack[RequestOptions],
) -> Evaluation[R]:
    """Evaluate a policy and its bindings for an object that a user creates, updates (with `old`, the object before),
    deletes or connects to.

    An object is typed, or a JSON document. It gets the defaults of its kind. Only the policy is asked.
    request: see `RequestOptions`.

    Raises ConfigError if the policy is not about such requests, and Invalid for parameters that an API server rejects.
    """
    operation, sent = operation_of("evaluate", create, update, delete, connect, old=old)
    document = _document(sent)
    place = _Place.of(policy, operation, document, sent, request)
    deletes = operation == "DELETE"
    write = policies.Write(
        operation=operation,
        resource=place.resource,
        object=None if deletes else document,
        old_object=document if deletes else _document(old) if old is not None else None,
        subresource=place.subresource,
        name=request.get("name", _metadata(document).get("name", "")),
        namespace=place.namespace,
        user=_user_info(request.get("user", USER)),
        permissions=[plain(each) for each in request.get("permissions", ())],
        dry_run=request.get("dry_run", False),
        options=request.get("options", {}),
    )
    of_policy, *bindings = (codec.to_dict(each) for each in policy_documents([policy]))
    params = _params(policy, request, place.namespace)
    result = policies.evaluate(of_policy, bindings, write, params=params, definitions=definitions_of(policy))
    changed = result.object if result.object is not None else document
    shown = decode_object(type(sent), msgspec.json.encode(changed)) if isinstance(sent, Object) else changed
    return Evaluation(
        allowed=result.error is None,
        matched=result.matched,
        object=cast("R", shown),
        status=result.error.status if result.error is not None else None,
        messages=result.messages,
        warnings=result.warnings,
        audit_annotations=result.audit_annotations,
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a request is sent to."""

    resource: GroupVersionResource
    subresource: str
    namespace: JSONObject | None
    """None for objects of the cluster."""

    @classmethod
    def of(
        cls, policy: Policy, operation: str, document: JSONObject, sent: Object | JSONObject, request: RequestOptions
    ) -> _Place:
        """Find the place from the rules of a policy. Raises ConfigError if they are not about such requests."""
        kind = GroupVersionKind.parse(document["apiVersion"], document["kind"])
        rule = _rule(policy, kind, operation)
        group, version, (plural, _, subresource) = rule.groups[0], rule.versions[0], rule.resources[0].partition("/")
        namespaced = rule.scope != "Cluster"
        if rule.kind is not None:
            namespaced = rule.kind.__api__.namespaced
        elif isinstance(sent, Object):
            api = sent.__api__
            group, version, plural, namespaced = api.group, api.version, api.plural, api.namespaced
        elif "*" in (group, version, plural):
            raise ConfigError(f"evaluate: {policy.name} has a rule with wildcards, so the object must be typed")
        return cls(
            GroupVersionResource(group, version, plural),
            request.get("subresource", subresource.replace("*", "")),
            _namespace(request, _metadata(document)) if namespaced else None,
        )


def _rule(policy: Policy, kind: GroupVersionKind, operation: str) -> Rule:
    """Return the rule of a policy that is about such requests. Raises ConfigError if none is."""
    about = [each for each in policy.rules if each.covers(operation)]
    if not about:
        known = ", ".join(dict.fromkeys(name for each in policy.rules for name in each.operations))
        raise ConfigError(
            f"evaluate: policy {policy.name} is not about {operation}, so that an API server would not evaluate it; "
            f"its operations are {known}"
        )
    found = [each for each in about if each.is_of(kind)] or [each for each in about if each.kind is None]
    if not found:
        known = ", ".join(each.kind.__api__.kind for each in about if each.kind is not None)
        raise ConfigError(f"evaluate: policy {policy.name} is not about objects of {kind}; its kinds are {known}")
    return found[0]


def _namespace(request: RequestOptions, metadata: JSONObject) -> JSONObject:
    given = request.get("namespace", metadata.get("namespace") or "default")
    return {"metadata": {"name": given}} if isinstance(given, str) else _document(given)


def _params(policy: Policy, request: RequestOptions, namespace: JSONObject | None) -> list[JSONObject]:
    given = request.get("params", ())
    objects = given if isinstance(given, Sequence) else [given]
    if objects and policy.params is None:
        raise ConfigError(f"evaluate: policy {policy.name} has no parameters; remove params")
    found: list[JSONObject] = []
    for each in objects:
        document = _document(each)
        metadata = document["metadata"] = {**_metadata(document)}
        if policy.params is not None and policy.params.__api__.namespaced and namespace is not None:
            metadata.setdefault("namespace", namespace["metadata"]["name"])
        if not metadata.get("name"):
            raise ConfigError("evaluate: params have no name, by which a binding finds them; add metadata.name")
        found.append(document)
    return found


def _user_info(user: User) -> policies.UserInfo:
    extra = {key: tuple(values) for key, values in user.extra.items()}
    return policies.UserInfo(user.name, tuple(user.groups), user.uid, extra)


def _document(obj: Object | JSONObject) -> JSONObject:
    if not isinstance(obj, Object):
        return obj
    document: JSONObject = msgspec.json.decode(encode_object(obj))
    return document


def _metadata(document: JSONObject) -> JSONObject:
    return document.get("metadata") or {}
