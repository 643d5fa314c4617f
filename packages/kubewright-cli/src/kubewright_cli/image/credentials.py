"""Credentials for registries, as `docker login` and `podman login` store them.

Searches $REGISTRY_AUTH_FILE, $XDG_RUNTIME_DIR/containers/auth.json, $DOCKER_CONFIG/config.json and
~/.docker/config.json, in this order. In each file, credential helpers come before stored credentials. Follows the
Docker command line's config file and containers-auth.json(5).
"""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from kubewright.machinery.errors import ConfigError

_HUB: Final = "https://index.docker.io/v1/"
"""Docker's key for the credentials of docker.io."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user name and password, or a refresh token."""

    user: str
    password: str
    refresh_token: str = ""

    @property
    def basic(self) -> str:
        return "Basic " + base64.b64encode(f"{self.user}:{self.password}".encode()).decode()


class _Entry(msgspec.Struct):
    """The entry of a registry in a file."""

    auth: str = ""
    identitytoken: str = ""


class _File(msgspec.Struct, rename="camel"):
    """The relevant fields of Docker's config file. Podman's file has a subset of them."""

    auths: dict[str, _Entry] = {}
    cred_helpers: dict[str, str] = {}
    creds_store: str = ""


class _Answer(msgspec.Struct, rename="pascal"):
    """The answer of a credential helper."""

    username: str = ""
    secret: str = ""


def credentials_for(registry: str) -> Credentials | None:
    """Return the credentials for `registry`; None if there are none. Raises ConfigError for a broken file or helper."""
    for path in _files():
        if path.is_file():
            config = _read(path)
            found = _from_helper(config, registry) or _from_file(config, registry, path)
            if found is not None:
                return found
    return None


def _files() -> Iterator[Path]:
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        yield Path(runtime, "containers", "auth.json")
    if docker := os.environ.get("DOCKER_CONFIG"):
        yield Path(docker, "config.json")
    else:
        yield Path.home() / ".docker" / "config.json"


def _read(path: Path) -> _File:
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError) as error:
        raise ConfigError(f"cannot read {path}: {error}") from error


def _from_file(config: _File, registry: str, path: Path) -> Credentials | None:
    keys = (registry, _HUB) if registry == "docker.io" else (registry, f"https://{registry}")
    entry = next((config.auths[key] for key in keys if key in config.auths), _Entry())
    if entry.identitytoken:
        return Credentials("", "", entry.identitytoken)
    if not entry.auth:
        return None
    try:
        user, colon, password = base64.b64decode(entry.auth, validate=True).decode().partition(":")
    except ValueError as error:
        raise ConfigError(f"{path}: the entry of {registry} is not base64 ({error}); log in again") from error
    if not colon:
        raise ConfigError(f"{path}: the entry of {registry} is not user:password; log in again")
    return Credentials(user, password)


def _from_helper(config: _File, registry: str) -> Credentials | None:
    helper = config.cred_helpers.get(registry) or config.creds_store
    if not helper:
        return None
    program = f"docker-credential-{helper}"
    key = _HUB if registry == "docker.io" else registry
    try:
        done = subprocess.run([program, "get"], input=key.encode(), capture_output=True, timeout=60, check=False)
        if done.returncode != 0:
            return None  # the helper has no credentials for this registry; its messages are not standardized
        answer = msgspec.json.decode(done.stdout, type=_Answer)
    except (OSError, msgspec.MsgspecError, subprocess.TimeoutExpired) as error:
        raise ConfigError(f"the credential helper {program} failed for {registry}: {error}") from error
    if answer.username == "<token>":
        return Credentials("", "", answer.secret)
    return Credentials(answer.username, answer.secret)
