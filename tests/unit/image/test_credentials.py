"""Credentials are found where `docker login` and `podman login` keep them."""

import base64
import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from kubewright.image.credentials import Credentials, credentials_for
from kubewright.machinery.errors import ConfigError


def keep(folder: Path, config: Mapping[str, object]) -> dict[str, str]:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    return {"DOCKER_CONFIG": str(folder)}


def login(user: str, password: str) -> dict[str, str]:
    return {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}


def test_a_login_is_found_under_the_name_of_its_registry(tmp_path: Path) -> None:
    environment = keep(tmp_path, {"auths": {"registry.example.com": login("ann", "a:b")}})
    assert credentials_for("registry.example.com", environment) == Credentials("ann", "a:b")
    assert credentials_for("other.example.com", environment) is None


def test_docker_hub_is_found_under_its_old_name(tmp_path: Path) -> None:
    environment = keep(tmp_path, {"auths": {"https://index.docker.io/v1/": login("ann", "secret")}})
    assert credentials_for("docker.io", environment) == Credentials("ann", "secret")


def test_podmans_file_comes_before_dockers(tmp_path: Path) -> None:
    environment = keep(tmp_path / "docker", {"auths": {"r.example.com": login("docker", "x")}})
    podman = tmp_path / "auth.json"
    podman.write_text(json.dumps({"auths": {"r.example.com": login("podman", "x")}}))
    assert credentials_for("r.example.com", environment | {"REGISTRY_AUTH_FILE": str(podman)}) == Credentials(
        "podman", "x"
    )


def test_a_helper_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helper = tmp_path / "docker-credential-test"
    helper.write_text(
        '#!/bin/sh\nread server\n[ "$server" = r.example.com ] && echo \'{"Username":"ann","Secret":"s"}\'\n'
    )
    helper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    environment = keep(tmp_path, {"credsStore": "test", "auths": {"other.example.com": login("bob", "t")}})
    assert credentials_for("r.example.com", environment) == Credentials("ann", "s")
    assert credentials_for("other.example.com", environment) == Credentials("bob", "t")


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    environment = keep(tmp_path, {"auths": {"r.example.com": {"auth": "%%%"}}})
    with pytest.raises(ConfigError, match=r"config.json: what it has for r.example.com can't be read .*log in again"):
        credentials_for("r.example.com", environment)
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ConfigError, match=r"config\.json can't be read"):
        credentials_for("r.example.com", environment)
