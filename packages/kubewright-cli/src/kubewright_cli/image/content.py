"""Parts of images: descriptors, and the documents that they reference.

Follows the OCI image specification (descriptor.md, manifest.md, image-index.md, config.md). Docker's older formats are
read, too, and written as OCI.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

INDEX: Final = "application/vnd.oci.image.index.v1+json"
MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
CONFIG: Final = "application/vnd.oci.image.config.v1+json"
LAYER: Final = "application/vnd.oci.image.layer.v1.tar+gzip"

INDEXES: Final = (INDEX, "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS: Final = (MANIFEST, "application/vnd.docker.distribution.manifest.v2+json")
IMAGES: Final = (*INDEXES, *MANIFESTS)
"""The media types that the name of an image can resolve to."""

_AS_OCI: Final[Mapping[str, str]] = {
    "application/vnd.docker.image.rootfs.diff.tar.gzip": LAYER,
    "application/vnd.docker.image.rootfs.diff.tar": "application/vnd.oci.image.layer.v1.tar",
}

NAME: Final = "org.opencontainers.image.ref.name"
"""The annotation with the name of an image in a layout's index."""


@dataclass(frozen=True, slots=True, order=True)
class Platform:
    """The platform of an image: `linux/amd64`."""

    os: str
    architecture: str

    @classmethod
    def parse(cls, text: str) -> Platform:
        """Raises ConfigError for platforms other than linux/amd64 and linux/arm64: others have no wheels."""
        platform = cls(*text.split("/", 1)) if "/" in text else cls(text, "")
        if str(platform) not in ("linux/amd64", "linux/arm64"):
            raise ConfigError(f'platform "{text}" is not supported; use linux/amd64 or linux/arm64')
        return platform

    def __str__(self) -> str:
        return f"{self.os}/{self.architecture}"


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A reference to content: its media type, its digest, and its size in bytes."""

    media_type: str
    digest: str
    size: int
    platform: Platform | None = None
    name: str = ""
    """The image's name, in a layout's index."""

    @classmethod
    def of(cls, media_type: str, content: bytes) -> Descriptor:
        return cls(media_type, digest_of(content), len(content))

    @classmethod
    def read(cls, document: JSONObject) -> Descriptor:
        platform = document.get("platform")
        return cls(
            str(document["mediaType"]),
            str(document["digest"]),
            int(document["size"]),
            Platform(str(platform["os"]), str(platform["architecture"])) if platform else None,
            str(document.get("annotations", {}).get(NAME, "")),
        )

    def to_dict(self) -> JSONObject:
        document: JSONObject = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        if self.platform:
            document["platform"] = {"architecture": self.platform.architecture, "os": self.platform.os}
        if self.name:
            document["annotations"] = {NAME: self.name}
        return document


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def encode(document: JSONObject) -> bytes:
    """Encode a document. Equal documents have equal bytes."""
    return json.dumps(document, separators=(",", ":"), sort_keys=True, ensure_ascii=False).encode()


def decode(content: bytes, what: str) -> JSONObject:
    """Decode a JSON object. Raises ConfigError for anything else."""
    try:
        return msgspec.json.decode(content, type=dict[str, Any])
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{what} is not a JSON object: {error}") from error


def as_oci(layer: Descriptor) -> Descriptor:
    """Return the same layer with the media type of OCI."""
    return Descriptor(_AS_OCI.get(layer.media_type, layer.media_type), layer.digest, layer.size)


def manifest(config: Descriptor, layers: Sequence[Descriptor]) -> bytes:
    return encode(
        {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "config": config.to_dict(),
            "layers": [layer.to_dict() for layer in layers],
        }
    )


def index(manifests: Sequence[Descriptor]) -> bytes:
    return encode({"schemaVersion": 2, "mediaType": INDEX, "manifests": [each.to_dict() for each in manifests]})
