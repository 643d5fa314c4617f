"""Conditions that the server itself writes."""

from __future__ import annotations

from kubewright.machinery.json import JSONObject


def set_condition(obj: JSONObject, condition: JSONObject, now: str) -> None:
    """Put a condition among those of an object's status; its time moves only when its status does."""
    conditions: list[JSONObject] = obj.setdefault("status", {}).setdefault("conditions", [])
    for index, present in enumerate(conditions):
        if present.get("type") == condition["type"]:
            moved = now if present.get("status") != condition["status"] else present.get("lastTransitionTime", now)
            conditions[index] = {**condition, "lastTransitionTime": moved}
            return
    conditions.append({**condition, "lastTransitionTime": now})
