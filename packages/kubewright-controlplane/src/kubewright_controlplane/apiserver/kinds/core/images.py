"""Names of container images, as far as the API server looks into them."""

from __future__ import annotations


def pull_policy(image: str) -> str:
    """When an image is pulled that says nothing of it: `Always` for the tag `latest`, named or meant."""
    name, _, digest = image.partition("@")
    _, colon, tag = name.rpartition("/")[2].partition(":")
    latest = tag == "latest" if colon else not digest
    return "Always" if latest else "IfNotPresent"
