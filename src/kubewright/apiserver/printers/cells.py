"""Cells that many kinds share."""

from __future__ import annotations

from datetime import datetime

from kubewright.machinery.json import JSONObject


def name_and_creation(obj: JSONObject, now: datetime) -> list[object]:
    """For kinds that show nothing of their own: the name, and when the object was made."""
    metadata = obj["metadata"]
    return [metadata["name"], metadata.get("creationTimestamp", "")]
