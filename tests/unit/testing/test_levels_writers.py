"""Who wrote an object, as the experiments of level V judge it."""

from __future__ import annotations

from kubewright.testing.levels._autopilot import writers
from kubewright.testing.levels._recorder import Version


def version(revision: int, cache: str, *entries: dict[str, object], ready: int = 0) -> Version:
    document = {"kind": "ConfigMap", "metadata": {"managedFields": list(entries)}, "data": {"cache": cache}}
    return Version(revision, {**document, "status": {"ready": ready}})


def entry(manager: str, time: str, **more: object) -> dict[str, object]:
    return {"manager": manager, "time": f"2026-01-01T00:00:{time}Z", "fieldsV1": {"f:data": {"f:cache": {}}}, **more}


TEST, OPERATOR = entry("kubewright-test", "01"), entry("store-operator", "02")
STATUS = entry("kube-controller-manager", "03", subresource="status")


def test_a_new_entry_names_the_writer() -> None:
    assert writers(version(1, "small", TEST), version(2, "large", TEST, OPERATOR)) == {"store-operator"}
    assert writers(None, version(1, "small", TEST)) == {"kubewright-test"}


def test_a_second_write_within_a_second_is_the_newest_manager_s() -> None:
    assert writers(version(1, "small", TEST, OPERATOR), version(2, "large", TEST, OPERATOR)) == {"store-operator"}


def test_a_write_of_the_status_is_nobody_s() -> None:
    old, new = version(1, "small", OPERATOR), version(2, "small", OPERATOR, STATUS, ready=1)
    assert writers(old, new) == set()
    assert writers(new, version(3, "small", OPERATOR, STATUS, ready=2)) == set()
