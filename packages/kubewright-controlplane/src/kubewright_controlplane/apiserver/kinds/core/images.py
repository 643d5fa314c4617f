"""Names of container images."""

from __future__ import annotations


def pull_policy(image: str) -> str:
    """Return the default pull policy: `Always` if the tag is `latest` or missing."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    latest = tag == "latest" if colon else not digest
    return "Always" if latest else "IfNotPresent"
