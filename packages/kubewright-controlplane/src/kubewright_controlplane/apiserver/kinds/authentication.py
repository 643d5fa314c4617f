"""Strategies of authentication.k8s.io: reviews of a user's identity. They are never stored.

Follows k8s.io/kubernetes pkg/registry/authentication.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubewright._runtime.clock import Clock
from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authentication.authentication import Authentication
from kubewright_controlplane.apiserver.authentication.jwt import InvalidToken
from kubewright_controlplane.apiserver.kinds.authorization import ReviewStrategy, answer
from kubewright_controlplane.apiserver.kinds.builtin import ServerParts
from kubewright_controlplane.apiserver.registry.model import Action, Attributes, Strategy


def strategies(server: ServerParts) -> Mapping[str, Strategy]:
    return {
        "tokenreviews": ReviewStrategy(TokenReview(authentication=server.authentication)),
        "selfsubjectreviews": ReviewStrategy(SelfReview(clock=server.options.clock)),
    }


@dataclass(frozen=True, kw_only=True)
class TokenReview(Action):
    """TokenReview: which user a token belongs to."""

    authentication: Authentication

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        spec = body.get("spec") or {}
        if not spec.get("token"):
            raise BadRequest("token is required for TokenReview in authentication")
        audiences = spec.get("audiences") or self.authentication.service_accounts.audiences
        status: JSONObject = {"user": {}, "error": "invalid bearer token"}
        try:
            found = self.authentication.authenticate_token(spec["token"], audiences)
        except InvalidToken as error:
            found = None
            status["error"] = f"[invalid bearer token, {error}]"
        if found is not None:
            user, accepted = found
            status = {"authenticated": True, "user": user.to_dict(), "audiences": list(accepted)}
        return answer(body, attributes, status)


@dataclass(frozen=True, kw_only=True)
class SelfReview(Action):
    """SelfSubjectReview: which user sends the request."""

    clock: Clock

    def create(self, body: JSONObject, attributes: Attributes) -> JSONObject:
        return {
            "kind": "SelfSubjectReview",
            "apiVersion": "authentication.k8s.io/v1",
            "metadata": {"creationTimestamp": time.format(self.clock.now())},
            "status": {"userInfo": attributes.user.to_dict()},
        }
