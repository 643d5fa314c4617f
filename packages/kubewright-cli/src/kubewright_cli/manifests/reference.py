"""Names of images, as `docker pull` reads them: `registry/repository:tag@digest`.

Without a registry, Docker Hub is meant; without a slash, too, its `library/`. The default tag is `latest`. Follows the
grammar of distribution/reference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from kubewright.machinery.errors import ConfigError

_HUB: Final = "docker.io"
_REPOSITORY: Final = re.compile(r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_HOST: Final = re.compile(r"(?:[A-Za-z0-9.-]+|\[[0-9a-fA-F:]+\])(?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class Reference:
    """The name of an image."""

    registry: str
    """`host[:port]`"""
    repository: str
    tag: str = "latest"
    digest: str = ""
    """`sha256:...`; takes precedence over the tag."""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """Parse a name. Raises ConfigError if it is not valid."""
        rest, at, digest = text.partition("@")
        if at and not _DIGEST.fullmatch(digest):
            raise ConfigError(f'image "{text}": "{digest}" is not a digest; write sha256: and 64 hexadecimal digits')
        name, colon, tag = rest.rpartition(":")
        if not colon or "/" in tag:
            name, tag = rest, "latest"
        elif not _TAG.fullmatch(tag):
            raise ConfigError(f'image "{text}": "{tag}" is not a tag; write up to 128 letters, digits, ".", "_", "-"')
        registry, slash, repository = name.partition("/")
        if not slash or not ("." in registry or ":" in registry or registry == "localhost"):
            registry, repository = _HUB, name if slash else f"library/{name}"
        if not _HOST.fullmatch(registry) or not _REPOSITORY.fullmatch(repository):
            raise ConfigError(
                f'image "{text}" is not a valid name; use one like registry.example.com/team/my-operator:v1'
            )
        return cls(registry, repository, tag, digest)

    def at(self, digest: str) -> Reference:
        """Return the same image with a digest."""
        return replace(self, digest=digest)

    @property
    def version(self) -> str:
        """The digest, or else the tag."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")
