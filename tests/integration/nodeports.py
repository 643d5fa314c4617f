"""Node ports, which are the whole machine's where Pods run as processes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def on_its_node_port(text: Path) -> pytest.MarkDecorator:
    """For a test that runs what the file says, which names its node port: no other with the same one runs beside it."""
    port = re.search(r"\b3[0-2]\d{3}\b", text.read_text())
    return pytest.mark.xdist_group(f"node port {port[0]}" if port else text.parent.name)
