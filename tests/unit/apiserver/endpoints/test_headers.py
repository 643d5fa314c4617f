"""Headers of clients with bytes that are not UTF-8. Answers have a replacement for each of them, as Go's JSON has."""

from __future__ import annotations

import pytest

from kubewright.http import wire
from kubewright.http.message import Request
from kubewright.http.spdy import accept
from unit.apiserver.harness import API, CONFIG_MAPS

_ODD = wire.text(b"a\x80\xffb")
_SHOWN = "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b"


@pytest.mark.parametrize(
    ("agent", "manager"),
    [(f"{_ODD}/1.0", _SHOWN), ("a\tb c\N{SOFT HYPHEN}d/1", "ab cd"), ("\t/1", "unknown"), ("", "unknown")],
)
async def test_the_manager_of_a_write_is_readable(api: API, agent: str, manager: str) -> None:
    created = await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": "x"}, "data": {"a": "b"}}, user_agent=agent)
    assert created["metadata"]["managedFields"][0]["manager"] == manager


async def test_an_impersonated_user_is_readable(api: API) -> None:
    review = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    found = await api.ok(
        "POST",
        review,
        {"metadata": {}},
        impersonate_user=_ODD,
        impersonate_group=_ODD,
        impersonate_uid=_ODD,
        **{"impersonate-extra-x": _ODD, "impersonate-extra-%80": "y"},
    )
    assert found["status"]["userInfo"] == {
        "username": _SHOWN,
        "uid": _SHOWN,
        "groups": [_SHOWN, "system:authenticated"],
        "extra": {"x": [_SHOWN], "\N{REPLACEMENT CHARACTER}": ["y"]},
    }


async def test_the_refusal_of_a_protocol_is_plain_text() -> None:
    headers = {"connection": "Upgrade", "upgrade": "SPDY/3.1", "x-stream-protocol-version": _ODD}

    async def speak(connection: object, protocol: str) -> None:
        raise AssertionError(protocol)

    response = accept(Request("POST", "/", headers), ["v4.channel.k8s.io"], speak)
    assert response.status == 403
    assert isinstance(response.body, bytes)
    response.body.decode()
