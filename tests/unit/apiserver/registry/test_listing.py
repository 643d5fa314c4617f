"""Lists: pages, selectors and earlier revisions."""

from __future__ import annotations

from unit.apiserver.harness import API, CONFIG_MAPS


async def fill(api: API, count: int) -> None:
    for number in range(count):
        await api.ok("POST", CONFIG_MAPS, {"metadata": {"name": f"c{number}", "labels": {"odd": str(number % 2)}}})


async def names(api: API, query: str = "") -> list[str]:
    listed = await api.ok("GET", f"{CONFIG_MAPS}?{query}")
    return [item["metadata"]["name"] for item in listed["items"]]


async def test_all_pages_of_a_list_have_one_revision(api: API) -> None:
    await fill(api, 5)
    first = await api.ok("GET", f"{CONFIG_MAPS}?limit=2")
    assert first["metadata"]["remainingItemCount"] == 3
    await api.ok("DELETE", f"{CONFIG_MAPS}/c3")
    await api.config_map("c9")
    second = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    third = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&continue={second['metadata']['continue']}")
    seen = [item["metadata"]["name"] for page in (first, second, third) for item in page["items"]]
    assert seen == ["c0", "c1", "c2", "c3", "c4"]
    assert {page["metadata"]["resourceVersion"] for page in (first, second, third)} == {
        first["metadata"]["resourceVersion"]
    }
    assert "continue" not in third["metadata"]


async def test_a_page_of_a_selection_is_full_and_has_no_remaining_count(api: API) -> None:
    await fill(api, 6)
    page = await api.ok("GET", f"{CONFIG_MAPS}?limit=2&labelSelector=odd%3D1")
    assert [item["metadata"]["name"] for item in page["items"]] == ["c1", "c3"]
    assert "remainingItemCount" not in page["metadata"]
    rest = await names(api, f"limit=2&labelSelector=odd%3D1&continue={page['metadata']['continue']}")
    assert rest == ["c5"]


async def test_an_expired_token_is_answered_with_a_new_one(api: API) -> None:
    await fill(api, 4)
    first = await api.ok("GET", f"{CONFIG_MAPS}?limit=2")
    for number in range(100):
        await api.ok("PUT", f"{CONFIG_MAPS}/c3", {"metadata": {"name": "c3"}, "data": {"n": str(number)}})
    status = await api.rejected(410, "GET", f"{CONFIG_MAPS}?limit=2&continue={first['metadata']['continue']}")
    assert status["reason"] == "Expired"
    assert await names(api, f"limit=2&continue={status['metadata']['continue']}") == ["c2", "c3"]


async def test_an_exact_list_returns_the_past_or_raises_gone(api: API) -> None:
    await fill(api, 1)
    then = (await api.ok("GET", CONFIG_MAPS))["metadata"]["resourceVersion"]
    await api.config_map("later")
    assert await names(api, f"resourceVersion={then}&resourceVersionMatch=Exact") == ["c0"]
    assert await names(api, f"resourceVersion={then}&resourceVersionMatch=NotOlderThan") == ["c0", "later"]
    for number in range(100):
        await api.ok("PUT", f"{CONFIG_MAPS}/c0", {"metadata": {"name": "c0"}, "data": {"n": str(number)}})
    await api.rejected(410, "GET", f"{CONFIG_MAPS}?resourceVersion={then}&resourceVersionMatch=Exact")


async def test_resource_version_zero_ignores_the_limit(api: API) -> None:
    await fill(api, 3)
    assert len(await names(api, "limit=1&resourceVersion=0")) == 3


async def test_a_list_at_a_future_revision_times_out(api: API) -> None:
    response = await api("GET", f"{CONFIG_MAPS}?resourceVersion=99999")
    assert (response.status, response.headers["retry-after"]) == (504, "1")


async def test_field_selectors_match_names_and_the_fields_of_the_kind(api: API) -> None:
    await fill(api, 2)
    assert await names(api, "fieldSelector=metadata.name%3Dc1") == ["c1"]
    assert await names(api, "fieldSelector=metadata.name%21%3Dc1") == ["c0"]
    listed = await api.ok("GET", "/api/v1/namespaces?fieldSelector=status.phase%3DActive")
    assert {"default", "kube-system"} <= {item["metadata"]["name"] for item in listed["items"]}
