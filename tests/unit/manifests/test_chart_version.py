"""Versions of Python projects as charts have them."""

from __future__ import annotations

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.manifests.chart.version import semantic


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("1.2.3", "1.2.3"),
        ("1.2", "1.2.0"),
        ("v3", "3.0.0"),
        ("1.0.0.0", "1.0.0"),
        ("01.002.3", "1.2.3"),
        ("1.2.0rc1", "1.2.0-rc.1"),
        ("1.2.0-beta.11", "1.2.0-beta.11"),
        ("1.2.0a", "1.2.0-a.0"),
        ("1.2.0.dev7", "1.2.0-dev.7"),
        ("1.2.0rc1.dev7", "1.2.0-rc.1.dev.7"),
        ("1.2.0.post1", "1.2.0+post.1"),
        ("1.2.0-1", "1.2.0+post.1"),
        ("1.2.0+build_5", "1.2.0+build.5"),
    ],
)
def test_a_version_keeps_its_meaning(version: str, expected: str) -> None:
    assert semantic(version) == expected


@pytest.mark.parametrize("version", ["", "one", "1.2.3.4", "1.0-final!"])
def test_an_invalid_chart_version_is_refused(version: str) -> None:
    with pytest.raises(ConfigError, match=r"project\.version: "):
        semantic(version)
