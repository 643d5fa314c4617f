"""Renders the templates of a project's files."""

from __future__ import annotations

from functools import cache
from typing import Final

import jinja2

from kubewright_cli.scaffold.sources import from_import, import_block

_FUNCTIONS: Final = {"from_import": from_import, "import_block": import_block}


def render(template: str, /, **values: object) -> str:
    """Render a template. A missing value is an error."""
    return _environment().get_template(f"{template}.j2", globals=_FUNCTIONS).render(**values)


@cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.PackageLoader("kubewright_cli", "templates"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
