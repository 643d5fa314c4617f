"""Credentials are read from the files of `docker login` and `podman login`."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from kubewright.machinery.errors import ConfigError
from kubewright_cli.image.credentials import Credentials, credentials_for


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Docker's configuration folder, without logins."""
    folder = tmp_path / "docker"
    folder.mkdir()
    for name in ("REGISTRY_AUTH_FILE", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(folder))
    return folder


def keep(folder: Path, config: Mapping[str, object]) -> None:
    (folder / "config.json").write_text(json.dumps(config))


def login(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_a_login_is_found_under_the_name_of_its_registry(folder: Path) -> None:
    keep(folder, {"auths": {"registry.example.com": login("ann", "a:b")}})
    assert credentials_for("registry.example.com") == Credentials("ann", "a:b")
    assert credentials_for("other.example.com") is None


def test_docker_hub_is_found_under_its_old_name(folder: Path) -> None:
    keep(folder, {"auths": {"https://index.docker.io/v1/": login("ann", "secret")}})
    assert credentials_for("docker.io") == Credentials("ann", "secret")


def test_podmans_file_comes_before_dockers(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(folder, {"auths": {"r.example.com": login("docker", "x")}})
    podman = tmp_path / "auth.json"
    podman.write_text(json.dumps({"auths": {"r.example.com": login("podman", "x")}}))
    monkeypatch.setenv("REGISTRY_AUTH_FILE", str(podman))
    assert credentials_for("r.example.com") == Credentials("podman", "x")


def test_a_credential_helper_is_called(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        '#!/bin/sh\nread server\n[ "$server" = r.example.com ] && echo \'{"Username":"ann","Secret":"s"}\'\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    keep(folder, {"credsStore": "test", "auths": {"other.example.com": login("bob", "t")}})
    assert credentials_for("r.example.com") == Credentials("ann", "s")
    assert credentials_for("other.example.com") == Credentials("bob", "t")


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    keep(folder, {"auths": {"r.example.com": {"auth": "%%%"}}})
    with pytest.raises(ConfigError, match=r"config.json: the entry of r.example.com is not base64 .*log in again"):
        credentials_for("r.example.com")
    (folder / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"cannot read .*config\.json"):
        credentials_for("r.example.com")
