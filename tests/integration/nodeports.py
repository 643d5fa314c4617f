"""Node ports: on the embedded control plane, they are ports of this machine."""

from __future__ import annotations

import re
from pathlib import Path

import pytest


def on_its_node_port(text: Path) -> pytest.MarkDecorator:
    """Mark a test that uses the node port in a file: tests with the same node port do not run concurrently."""
    port = re.search(r"\b3[0-2]\d{3}\b", text.read_text())
    return pytest.mark.xdist_group(f"node port {port[0]}" if port else text.parent.name)
