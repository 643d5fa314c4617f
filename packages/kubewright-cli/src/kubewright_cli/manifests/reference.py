"""Names of images, as `docker pull` reads them: `registry/repository:tag@digest`.

What has no registry is Docker Hub's, what then has no slash is its `library/`; what has neither tag nor digest is
`latest`. Follows distribution/reference, whose grammar this is.
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
    """Where an image is, or is to be."""

    registry: str
    """`host[:port]`"""
    repository: str
    tag: str = "latest"
    digest: str = ""
    """`sha256:...`; it is what counts where both are given."""

    @classmethod
    def parse(cls, text: str) -> Reference:
        """ConfigError for what cannot be a name."""
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
                f'image "{text}" is not a name; write registry.example.com/team/my-operator:v1, in lower case'
            )
        return cls(registry, repository, tag, digest)

    def at(self, digest: str) -> Reference:
        """The same, at this very content."""
        return replace(self, digest=digest)

    @property
    def version(self) -> str:
        """What to ask the registry for."""
        return self.digest or self.tag

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}" + (f"@{self.digest}" if self.digest else "")
