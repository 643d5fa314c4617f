"""One setting of a pyproject.toml, changed in its text."""

from __future__ import annotations

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.scaffold.settings import with_setting

TABLE = '[tool.kubewright]\n# What the program can\'t know.\nmanager = "a.main:manager"\n'
OTHER = '\n[tool.other]\nwatch-namespaces = "not ours"\n'


@pytest.mark.parametrize("end", ["", OTHER])
def test_a_setting_is_added_and_removed_and_the_rest_is_not_changed(end: str) -> None:
    own = with_setting(TABLE + end, "watch-namespaces", "own")
    assert own == f'{TABLE}watch-namespaces = "own"\n{end}'
    assert with_setting(own, "watch-namespaces", "own") == own
    assert with_setting(own, "watch-namespaces", None) == TABLE + end


def test_a_setting_is_replaced() -> None:
    before = f'{TABLE}watch-namespaces = ["a", "b"]  # two\nimage = "x"\n'
    assert with_setting(before, "watch-namespaces", "own") == f'{TABLE}watch-namespaces = "own"\nimage = "x"\n'


@pytest.mark.parametrize(
    "text",
    [
        pytest.param('tool.kubewright.manager = "a.main:manager"\n', id="no table of its own"),
        pytest.param(f"{TABLE}watch-namespaces = [\n  'a',\n]\n", id="several lines"),
    ],
)
def test_an_unknown_layout_is_not_changed(text: str) -> None:
    with pytest.raises(ConfigError, match='set watch-namespaces = "own" by hand'):
        with_setting(text, "watch-namespaces", "own")
