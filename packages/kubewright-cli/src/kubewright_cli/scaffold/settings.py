"""Changes one setting in `[tool.kubewright]` of a pyproject.toml, or an extra. Keeps comments and layout."""

from __future__ import annotations

import re
import tomllib
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import is_array, is_object

_TABLE: Final = re.compile(r"^\[tool\.kubewright\][^\n]*\n(?:(?!\[)[^\n]*\n?)*", re.MULTILINE)


def with_setting(text: str, key: str, value: str | None) -> str:
    """Return `text` with `key` set to the string `value`, or without it.

    Raises ConfigError if the setting does not have its own line, or if anything else would change, and TOMLDecodeError
    if `text` is not TOML.
    """
    before = _table(text)
    wanted = (before if is_object(before) else {}) | {key: value}
    line = re.compile(rf"^{re.escape(key)}[ \t]*=[^\n]*\n?", re.MULTILINE)
    stated = "" if value is None else f'{key} = "{value}"\n'

    def changed(table: re.Match[str]) -> str:
        found = table.group()
        if line.search(found):
            return line.sub(stated, found, count=1)
        body = found.rstrip("\n")
        return f"{body}\n{stated}{found[len(body) + 1 :]}"

    after = _TABLE.sub(changed, text, count=1)
    if _table_or_none(after) != {each: setting for each, setting in wanted.items() if setting is not None}:
        task = f"remove {key}" if value is None else f'set {key} = "{value}"'
        raise ConfigError(f"pyproject.toml: [tool.kubewright] cannot be edited automatically; {task} by hand")
    return after


def with_extra(text: str, name: str, extra: str) -> str | None:
    """Return `text` with an extra of the dependency `name`. Returns None if that cannot be edited.

    Raises TOMLDecodeError if `text` is not TOML.
    """
    pattern = re.compile(rf"{re.escape(name)}\s*(?:\[([^\]]*)\])?(?=[\s<>=!~@;]|$)")
    for stated in _dependencies(text):
        found = pattern.match(stated)
        if found is None:
            continue
        extras = [each.strip() for each in (found[1] or "").split(",") if each.strip()]
        if extra in extras:
            return text
        wanted = f"{name}[{','.join([*extras, extra])}]{stated[found.end() :]}"
        edited = text
        for quote in ('"', "'"):
            edited = edited.replace(f"{quote}{stated}{quote}", f"{quote}{wanted}{quote}")
        return edited if wanted in _dependencies(edited) else None
    return None


def _dependencies(text: str) -> list[str]:
    project = tomllib.loads(text).get("project", {})
    found: object = project.get("dependencies", []) if is_object(project) else []
    return [each for each in found if isinstance(each, str)] if is_array(found) else []


def _table(text: str) -> object:
    tools = tomllib.loads(text).get("tool", {})
    return tools.get("kubewright", {}) if is_object(tools) else None


def _table_or_none(text: str) -> object:
    try:
        return _table(text)
    except tomllib.TOMLDecodeError:
        return None
