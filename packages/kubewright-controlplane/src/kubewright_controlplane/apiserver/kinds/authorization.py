"""Strategies of authorization.k8s.io: reviews of a user's permissions. They are never stored.

Follows k8s.io/kubernetes pkg/registry/authorization and pkg/apis/authorization/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kubewright.machinery.errors import BadRequest, Invalid
from kubewright.machinery.fields import FieldError, invalid
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes
from kubewright_controlplane.apiserver.authorization.nodes import NodesAndRBAC
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Action, Attributes, Strategy
from kubewright_controlplane.apiserver.user import UserInfo

_GROUP: Final = "authorization.k8s.io"
_NO_RULES: Final = "node authorizer does not support user rule resolution"


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    authorizer = server.authorizer
    return {
        "subjectaccessreviews": ReviewStrategy(AccessReview(authorizer=authorizer)),
        "selfsubjectaccessreviews": ReviewStrategy(SelfAccessReview(authorizer=authorizer)),
        "localsubjectaccessreviews": ReviewStrategy(LocalAccessReview(authorizer=authorizer)),
        "selfsubjectrulesreviews": ReviewStrategy(SelfRulesReview(authorizer=authorizer)),
    }


class ReviewStrategy(Strategy):
    """A kind whose create runs a review."""

    def __init__(self, action: Action) -> None:
        self._action = action

    @property
    def action(self) -> Action | None:
        return self._action


@dataclass(frozen=True, kw_only=True)
class AccessReview(Action):
    """SubjectAccessReview: whether a user may do something."""

    authorizer: NodesAndRBAC
    only_reads: bool = True

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        spec = body.setdefault("spec", {})
        errors = self.errors(spec, attributes)
        if errors:
            raise Invalid.of("", _GROUP, "", errors)
        return answer(body, attributes, self._answer(spec, self.user(spec, attributes)))

    def user(self, spec: JSONObject, attributes: Attributes) -> UserInfo:
        extra = {key.lower(): tuple(values) for key, values in (spec.get("extra") or {}).items()}
        return UserInfo(spec.get("user") or "", tuple(spec.get("groups") or ()), spec.get("uid") or "", extra)

    def errors(self, spec: JSONObject, attributes: Attributes) -> list[FieldError]:
        errors = _attribute_errors(spec)
        if not spec.get("user") and not spec.get("groups"):
            errors.append(invalid("spec.user", "", "at least one of user or group must be specified"))
        return errors

    def _answer(self, spec: JSONObject, user: UserInfo) -> JSONObject:
        access = _access(spec, user)
        allowed = self.authorizer.authorize(access).allowed
        status: JSONObject = {"allowed": allowed}
        reason = self.authorizer.explain(access)
        if reason:
            status["reason"] = reason
        return status


@dataclass(frozen=True, kw_only=True)
class SelfAccessReview(AccessReview):
    """SelfSubjectAccessReview: whether the sender may do something."""

    def user(self, spec: JSONObject, attributes: Attributes) -> UserInfo:
        return attributes.user

    def errors(self, spec: JSONObject, attributes: Attributes) -> list[FieldError]:
        return _attribute_errors(spec)


@dataclass(frozen=True, kw_only=True)
class LocalAccessReview(AccessReview):
    """LocalSubjectAccessReview: whether a user may do something in this namespace."""

    def errors(self, spec: JSONObject, attributes: Attributes) -> list[FieldError]:
        errors = super().errors(spec, attributes)
        asked, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
        if asked is not None and asked.get("namespace") != attributes.namespace:
            at = "spec.resourceAttributes.namespace"
            errors.append(invalid(at, asked.get("namespace") or "", "must match metadata.namespace"))
        if path is not None:
            errors.append(invalid("spec.nonResourceAttributes", _as_go(path), "disallowed on this kind of request"))
        return errors


@dataclass(frozen=True, kw_only=True)
class SelfRulesReview(Action):
    """SelfSubjectRulesReview: the permissions of the sender in a namespace."""

    authorizer: NodesAndRBAC

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        namespace = (body.get("spec") or {}).get("namespace")
        if not namespace:
            raise BadRequest("no namespace on request")
        resources: list[JSONObject] = []
        others: list[JSONObject] = []
        for rule in self.authorizer.rbac.rules_for(attributes.user, namespace):
            if rule.resources:
                shown = {"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources}
                resources.append({**shown, "resourceNames": rule.names} if rule.names else shown)
            if rule.urls:
                others.append({"verbs": rule.verbs, "nonResourceURLs": rule.urls})
        is_incomplete = self.authorizer.has_further_rules(attributes.user)
        status: JSONObject = {"resourceRules": resources, "nonResourceRules": others, "incomplete": is_incomplete}
        unresolved = self.authorizer.rbac.unresolved(attributes.user, namespace)
        errors = [*([_NO_RULES] if is_incomplete else ()), *([unresolved] if unresolved else ())]
        if errors:
            status["evaluationError"] = errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]"
        return answer({"spec": {}}, attributes, status)


def answer(review: JSONObject, attributes: Attributes, status: JSONObject) -> JSONObject:
    """Return a review with its status."""
    resource = attributes.resource
    metadata = {"namespace": attributes.namespace} if attributes.namespace else {}
    head = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
    return {**head, "spec": review.get("spec") or {}, "status": status}


def _access(spec: JSONObject, user: UserInfo) -> AccessAttributes:
    asked = spec.get("resourceAttributes")
    if asked is None:
        path = spec["nonResourceAttributes"]
        return AccessAttributes(user, path.get("verb") or "", path=path.get("path") or "")
    return AccessAttributes(
        user,
        asked.get("verb") or "",
        asked.get("group") or "",
        asked.get("version") or "",
        asked.get("resource") or "",
        asked.get("subresource") or "",
        asked.get("namespace") or "",
        asked.get("name") or "",
        field_selector=_field_selector(asked.get("fieldSelector") or {}),
    )


def _field_selector(asked: JSONObject) -> str:
    """Return a field selector as text. Only requirements of one value can be true for what authorization asks."""
    requirements: list[JSONObject] = asked.get("requirements") or []
    single = [each for each in requirements if each.get("operator") == "In" and len(each.get("values") or ()) == 1]
    return asked.get("rawSelector") or ",".join(f"{each['key']}={each['values'][0]}" for each in single)


def _as_go(path: JSONObject) -> JSONObject:
    """Return the attributes of a path as errors show them."""
    return {"Path": path.get("path") or "", "Verb": path.get("verb") or ""}


def _attribute_errors(spec: JSONObject) -> list[FieldError]:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        why = "cannot be specified in combination with resourceAttributes"
        return [invalid("spec.nonResourceAttributes", _as_go(path), why)]
    if resource is None and path is None:
        why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        return [invalid("spec.resourceAttributes", None, why)]
    return []
