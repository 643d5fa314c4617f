"""Service account tokens: issued by TokenRequest, valid as long as the objects exist that they are bound to.

Guarantees
    A token is valid only if it was signed with one of the server's keys, has not expired, and is for one of the
    requested audiences. Its ServiceAccount, and the Pod, Secret or Node that it is bound to, must exist with the
    same uid. The signature is verified once, everything else on each use.

Follows k8s.io/kubernetes pkg/serviceaccount.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.authentication.jwt import InvalidToken, SigningKey, Token, VerifyingKey
from kubewright_controlplane.apiserver.user import (
    AUTHENTICATED_GROUP,
    UserInfo,
    service_account_groups,
    service_account_name,
)

Lookup = Callable[[str, str, str], JSONObject | None]
"""Reads an object by resource, namespace and name."""

_LEEWAY_SECONDS: Final = 60
_SECRET_ISSUER: Final = "kubernetes/serviceaccount"
"""The issuer of tokens that are kept in Secrets."""
_CLAIM: Final = "kubernetes.io/serviceaccount/"
_INVALID_SINCE: Final = "kubernetes.io/legacy-token-invalid-since"
_REMEMBERED: Final = 4096


@dataclass(frozen=True, slots=True)
class BoundObject:
    """The object that a token is bound to, in addition to its ServiceAccount."""

    resource: str
    """`pods`, `secrets` or `nodes`."""
    name: str
    uid: str
    node: tuple[str, str] | None = None
    """Name and uid of the Node of a bound Pod."""


class ServiceAccountTokens:
    """Issues and validates service account tokens."""

    def __init__(
        self,
        signing_key: SigningKey,
        issuer: str,
        lookup: Lookup,
        now: Callable[[], datetime],
        *,
        further_issuers: Sequence[str] = (),
        audiences: Sequence[str] = (),
        keys: Sequence[VerifyingKey] = (),
    ) -> None:
        self.issuer: Final = issuer
        self.audiences: Final = tuple(audiences) or (issuer, *further_issuers)
        """The audiences of the API server itself."""
        self._issuers = (issuer, *further_issuers)
        self._signing_key = signing_key
        self._keys = {key.id: key for key in (signing_key.public, *keys)}
        self._lookup = lookup
        self._now = now
        self._verified: dict[str, JSONObject] = {}

    def mint(
        self, account: JSONObject, audiences: Sequence[str], seconds: int, bound: BoundObject | None = None
    ) -> str:  # fmt: skip
        """Issue a token of a ServiceAccount for these audiences and this number of seconds."""
        metadata = account["metadata"]
        private: JSONObject = {
            "namespace": metadata["namespace"],
            "serviceaccount": {"name": metadata["name"], "uid": metadata["uid"]},
        }
        if bound is not None:
            private[bound.resource.removesuffix("s")] = {"name": bound.name, "uid": bound.uid}
            if bound.node is not None:
                private["node"] = {"name": bound.node[0], "uid": bound.node[1]}
        now = int(self._now().timestamp())
        return self._signing_key.sign(
            {
                "aud": list(audiences),
                "exp": now + seconds,
                "iat": now,
                "iss": self.issuer,
                "jti": str(uuid.uuid4()),
                "kubernetes.io": private,
                "nbf": now,
                "sub": service_account_name(metadata["namespace"], metadata["name"]),
            }
        )

    def mint_for_secret(self, namespace: str, name: str, uid: str, secret: str) -> str:
        """Issue a token of a ServiceAccount that is valid as long as the Secret `secret` contains it."""
        return self._signing_key.sign(
            {
                "iss": _SECRET_ISSUER,
                f"{_CLAIM}namespace": namespace,
                f"{_CLAIM}secret.name": secret,
                f"{_CLAIM}service-account.name": name,
                f"{_CLAIM}service-account.uid": uid,
                "sub": service_account_name(namespace, name),
            }
        )

    def authenticate(self, text: str, audiences: Sequence[str]) -> tuple[UserInfo, tuple[str, ...]] | None:
        """Return the user of a token and the `audiences` that it is valid for; None if another issuer made it.

        Raises InvalidToken with the reason if a token of this issuer is not valid.
        """
        claims = self._claims(text)
        if claims is None:
            return None
        own = claims.get("aud") or list(self.audiences)
        wanted = frozenset(audiences)
        accepted = tuple(each for each in own if each in wanted)
        if not accepted:
            raise InvalidToken(
                f"token audiences {_shown(own)} is invalid for the target audiences {_shown(audiences)}"
            )  # fmt: skip
        if claims["iss"] == _SECRET_ISSUER:
            return self._user_of_secret(text, claims), accepted
        self._check_times(claims)
        private = claims["kubernetes.io"]
        self._check_objects(private)
        return _user(private, claims.get("jti", "")), accepted

    def key_set(self) -> JSONObject:
        """Return the public keys as a JSON Web Key Set, for `/openid/v1/jwks`."""
        return {"keys": [key.jwk() for key in self._keys.values()]}

    def _claims(self, text: str) -> JSONObject | None:
        claims = self._verified.get(text)
        if claims is not None:
            return claims
        try:
            token = Token.parse(text)
        except InvalidToken:
            return None
        if token.claims.get("iss") not in (*self._issuers, _SECRET_ISSUER):
            return None
        key = self._keys.get(str(token.header.get("kid")))
        if key is None:
            raise InvalidToken("invalid signature, no keys found")
        key.verify(token)
        if len(self._verified) >= _REMEMBERED:
            self._verified.clear()
        self._verified[text] = token.claims
        return token.claims

    def _user_of_secret(self, text: str, claims: JSONObject) -> UserInfo:
        namespace, secret_name, name, uid = (
            claims.get(f"{_CLAIM}{each}", "")
            for each in ("namespace", "secret.name", "service-account.name", "service-account.uid")
        )
        secret = self._lookup("secrets", namespace, secret_name)
        if secret is None or secret["metadata"].get("deletionTimestamp"):
            raise InvalidToken("Token has been invalidated")
        if _b64_text((secret.get("data") or {}).get("token")) != text:
            raise InvalidToken("Token does not match server's copy")
        account = self._account(namespace, name, uid)
        if account["metadata"].get("deletionTimestamp"):
            raise InvalidToken(f"ServiceAccount {namespace}/{name} has been deleted")
        if (secret["metadata"].get("labels") or {}).get(_INVALID_SINCE):
            raise InvalidToken(f"the token in secret {namespace}/{secret_name} has been marked invalid")
        return _user({"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}}, "")

    def _account(self, namespace: str, name: str, uid: str) -> JSONObject:
        """Return the ServiceAccount. Raises InvalidToken unless it has this uid."""
        account = self._lookup("serviceaccounts", namespace, name)
        if account is None:
            raise InvalidToken(f'serviceaccounts "{name}" not found')
        found = account["metadata"]["uid"]
        if found != uid:
            raise InvalidToken(f"service account UID ({found}) does not match claim ({uid})")
        return account

    def _check_times(self, claims: JSONObject) -> None:
        now = self._now().timestamp()
        if now > claims["exp"] + _LEEWAY_SECONDS:
            raise InvalidToken("service account token has expired")
        if now < claims["nbf"] - _LEEWAY_SECONDS:
            raise InvalidToken("service account token is not valid yet")

    def _check_objects(self, private: JSONObject) -> None:
        namespace, ref = private["namespace"], private["serviceaccount"]
        self._account(namespace, ref["name"], ref["uid"])
        for kind in ("pod", "secret", "node"):
            if kind not in private or (kind == "node" and "pod" in private):
                continue
            bound = private[kind]
            found = self._lookup(f"{kind}s", "" if kind == "node" else namespace, bound["name"])
            if found is None or found["metadata"]["uid"] != bound["uid"]:
                raise InvalidToken("service account token has been invalidated")


def _user(private: JSONObject, token_id: str) -> UserInfo:
    namespace, account = private["namespace"], private["serviceaccount"]
    extra: dict[str, tuple[str, ...]] = {}
    if token_id:
        extra["authentication.kubernetes.io/credential-id"] = (f"JTI={token_id}",)
    for kind in ("pod", "node"):
        if kind in private:
            extra[f"authentication.kubernetes.io/{kind}-name"] = (private[kind]["name"],)
            if private[kind].get("uid"):
                extra[f"authentication.kubernetes.io/{kind}-uid"] = (private[kind]["uid"],)
    groups = (*service_account_groups(namespace), AUTHENTICATED_GROUP)
    return UserInfo(service_account_name(namespace, account["name"]), groups, account["uid"], extra)


def _b64_text(encoded: object) -> str:
    """Decode the value of a Secret, which was validated when it was written."""
    return base64.b64decode(encoded).decode("utf-8", "replace") if isinstance(encoded, str) else ""


def _shown(values: Sequence[str]) -> str:
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
