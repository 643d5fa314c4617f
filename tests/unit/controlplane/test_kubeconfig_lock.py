"""The lock next to a kubeconfig, which keeps two control planes from writing the same file."""

from __future__ import annotations

from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_controlplane.serving import owned


def test_the_lock_does_not_follow_a_symbolic_link(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("precious")
    (tmp_path / "kubeconfig.pid").symlink_to(other)
    with pytest.raises(ConfigError, match="cannot write the kubeconfig to"), owned(tmp_path / "kubeconfig"):
        pass
    assert other.read_text() == "precious"
