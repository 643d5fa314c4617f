"""Tokens and impersonation headers that should not work."""

from __future__ import annotations

import base64
from random import Random

from hostile import values
from hostile.exchanges import JSON, Exchange, User, request
from hostile.kinds import NAMESPACE, VAULT


def credentials(rng: Random) -> list[Exchange]:
    """Send tokens and impersonation headers that should not work, to read what nobody but administrators may read."""
    sent: list[Exchange] = []
    for _ in range(rng.choice((1, 2, 3))):
        user: User = rng.choice(("anonymous", "anonymous", "tenant"))
        headers: list[tuple[str, str]] = []
        if rng.random() < 0.6:
            headers.append((rng.choice(("Authorization", "authorization", "AUTHORIZATION")), _authorization(rng)))
        headers += [_impersonation(rng) for _ in range(rng.choice((0, 0, 1, 2, 3)))]
        if rng.random() < 0.3:
            name = rng.choice(("X-Remote-User", "X-Forwarded-For", "X-Remote-Group"))
            headers.append((name, rng.choice(("kubernetes-admin", "system:masters"))))
        target = rng.choice(
            (
                f"/api/v1/namespaces/{VAULT}/secrets",
                f"/api/v1/namespaces/{VAULT}/configmaps?watch=1&timeoutSeconds=1",
                "/api/v1/secrets",
                f"/api/v1/namespaces/{VAULT}/secrets/treasure",
            )
        )
        sent.append(request("GET", target, headers=headers, user=user))
        if rng.random() < 0.3:
            review = {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenReview",
                "spec": {"token": _jwt(rng), "audiences": rng.choice(([], ["a"], None))},
            }
            sent.append(
                request("POST", "/apis/authentication.k8s.io/v1/tokenreviews", values.text(rng, review), type=JSON)
            )
        if rng.random() < 0.3:
            sent.append(
                request("GET", f"/api/v1/namespaces/{NAMESPACE}", headers=[_impersonation(rng), _impersonation(rng)])
            )
    return sent


def _impersonation(rng: Random) -> tuple[str, str]:
    name = rng.choice(("User", "Group", "Uid", "Extra-a", "Extra-", "Extra-%2F", "Extra-%zz", "Extra-A%C3%A9", "x"))
    value = rng.choice(
        (
            "kubernetes-admin",
            "system:masters",
            "system:anonymous",
            f"system:serviceaccount:{VAULT}:default",
            "system:serviceaccount:a",
            "system:serviceaccount:a:b:c",
            "system:unauthenticated",
            "",
            "a,b",
            "é",
            "system:node:a",
            "x" * 2000,
        )
    )
    return f"Impersonate-{name}", value


def _authorization(rng: Random) -> str:
    scheme = rng.choice(("Bearer", "bearer", "BEARER", "Basic", "Digest", "", "Bearer ", "Bearer\t"))
    return f"{scheme} {_jwt(rng)}"


def _jwt(rng: Random) -> str:
    """Return a token that looks like one of a service account."""
    head = {
        "alg": rng.choice(("RS256", "none", "HS256", "ES256", "PS256", "rs256", "", None, 5)),
        "kid": rng.choice(("a", "../a", None, "", 5)),
        "typ": "JWT",
    }
    claims = {
        "iss": rng.choice(("https://kubernetes.default.svc.cluster.local", "x")),
        "sub": f"system:serviceaccount:{VAULT}:default",
        "aud": rng.choice((["https://kubernetes.default.svc.cluster.local"], "a", [], None, [5])),
        "exp": rng.choice((4102444800, "4102444800", 1e400, -1, 2**70, None, True)),
        "nbf": 1,
        "iat": 1,
        "kubernetes.io": {
            "namespace": VAULT,
            "serviceaccount": {"name": "default", "uid": "a"},
            "pod": {"name": "a", "uid": "b"},
        },
    }
    if rng.random() < 0.4:
        claims = values.mutate(rng, claims, 2)
    if rng.random() < 0.2:
        head = values.mutate(rng, head)
    parts = [base64.urlsafe_b64encode(values.text(rng, each)).decode().rstrip("=") for each in (head, claims)]
    signature = rng.choice(
        ("", "AAAA", base64.urlsafe_b64encode(rng.randbytes(256)).decode().rstrip("="), "é", "a" * 5000, "====")
    )
    token = ".".join([*parts, signature])
    pick = rng.random()
    if pick < 0.1:
        return rng.choice((token * 2, token.replace(".", ".."), token[:20], "a.b.c", "...", ".", "", "a b", "=" * 50))
    return (
        values.damaged(rng, token.encode()).decode("latin-1").replace("\r", "").replace("\n", "").replace("\0", "")
        if pick < 0.3
        else token
    )
