"""JSONPath finds what kubectl's finds."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright_controlplane.apiserver.jsonpath import JSONPath

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "web", "a": "1"}},
    "spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c"}], "n": 3},
    "status": {
        "conditions": [
            {"type": "Ready", "status": "True", "n": 1},
            {"type": "Scheduled", "status": "False", "n": 2, "ok": True},
        ]
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["web"]),
        ("{.metadata.name}", ["web"]),
        ("metadata.name", ["web"]),
        ("$.metadata.name", ["web"]),
        (".metadata.nope.deeper", []),
        (".spec.n.deeper", []),
        (r".metadata.labels.app\.kubernetes\.io/name", ["web"]),
        (".metadata.labels['app.kubernetes.io/name']", ["web"]),
        (".metadata.labels['app\\.kubernetes\\.io/name']", ["web"]),
        (".metadata['name','nope']", ["web"]),
        (".metadata.labels.*", ["web", "1"]),
        (".spec.containers[*].name", ["a", "b", "c"]),
        (".spec.containers[0].name", ["a"]),
        (".spec.containers[-1].name", ["c"]),
        (".spec.containers[7].name", []),
        (".spec.containers[0,2].name", ["a", "c"]),
        (".spec.containers[0:2].name", ["a", "b"]),
        (".spec.containers[1:].name", ["b", "c"]),
        (".spec.containers[::2].name", ["a", "c"]),
        (".spec.containers[-2:].name", ["b", "c"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type == 'Scheduled')].status", ["False"]),
        ('.status.conditions[?(@.type!="Ready")].type', ["Scheduled"]),
        (".status.conditions[?(@.n>1)].type", ["Scheduled"]),
        (".status.conditions[?(@.ok)].type", ["Scheduled"]),
        (".status.conditions[?(@.ok==true)].type", ["Scheduled"]),
        ('.status.conditions[?(@.n=="1")].type', []),
        ("..image", ["a:1", "b:2"]),
        (".spec..name", ["a", "b", "c"]),
        (".", [POD]),
    ],
)
def test_a_path_finds(path: str, found: list[Any]) -> None:
    assert JSONPath(path).find(POD) == found


def test_the_first_of_nothing_is_none() -> None:
    assert JSONPath(".spec.containers[*].image").first(POD) == "a:1"
    assert JSONPath(".nope").first(POD) is None


@pytest.mark.parametrize("path", [".a[", ".a[x]", ".a[?(@.b==c)]", ".a]b", ".a['b", "{.a}{.b}", ".a[0:1:0]", ".a[]"])
def test_unsupported_syntax_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="JSONPath"):
        JSONPath(path)
