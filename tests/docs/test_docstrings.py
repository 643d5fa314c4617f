"""Docstrings as the site shows them."""

from __future__ import annotations

import pytest
from tools.site import docstrings


def link(name: str) -> str:
    return "kubewright.Client" if name == "Client" else ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("A `Client` of `x`.", "A [`Client`][kubewright.Client] of `x`."),
        ("Raises Client, ValueError.", "Raises [`Client`][kubewright.Client], ValueError."),
        ("Not <b>, *, _a_ or [c].", r"Not \<b>, \*, \_a\_ or \[c\]."),
        ("See https://kubernetes.io/a_b/.", "See <https://kubernetes.io/a_b/>."),
        (
            "Guarantees\n    One thing.\n    Another, continued\n    here.",
            "**Guarantees**\n\n- One thing.\n- Another, continued here.",
        ),
        (
            "Takes:\n`a`: the first\none.\n`b`: the second.\nRaises Client.",
            "Takes:\n\n- `a`: the first one.\n- `b`: the second.\n\nRaises [`Client`][kubewright.Client].",
        ),
        ("So:\n\n    x = 1", "So:\n\n```python\nx = 1\n```"),
        ("So:\n\n    $ make it", "So:\n\n```text\n$ make it\n```"),
        ("a    first\nbcd  second", "```text\na    first\nbcd  second\n```"),
    ],
)
def test_a_docstring_becomes_markdown(text: str, shown: str) -> None:
    assert docstrings.markdown(text, link) == shown
