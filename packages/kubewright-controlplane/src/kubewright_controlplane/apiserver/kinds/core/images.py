"""Names of container images.

Follows github.com/distribution/reference.
"""

from __future__ import annotations

import re
from typing import Final

_PART: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST_PART: Final = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PATH: Final = re.compile(rf"{_PART}(?:/{_PART})*")
_HOST: Final = re.compile(rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?")
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_IDENTIFIER: Final = re.compile(r"[a-f0-9]{64}")
_LONGEST: Final = 255


def pull_policy(image: str) -> str:
    """Return the default pull policy: `Always` if the tag is `latest` or missing.

    An invalid name gets `IfNotPresent`.
    """
    name, at, digest = image.partition("@")
    folder, slash, last = name.rpartition("/")
    last, colon, tag = last.partition(":")
    if not _is_name(folder + slash + last) or (colon and not _TAG.fullmatch(tag)):
        return "IfNotPresent"
    if at and not _DIGEST.fullmatch(digest):
        return "IfNotPresent"
    latest = tag == "latest" if colon else not digest
    return "Always" if latest else "IfNotPresent"


def _is_name(name: str) -> bool:
    host, slash, path = name.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost" or host.lower() != host):
        host, path = "docker.io", name
    if len(f"{host}/{path}") > _LONGEST or _IDENTIFIER.fullmatch(name):
        return False
    return bool(_HOST.fullmatch(host) and _PATH.fullmatch(path))
