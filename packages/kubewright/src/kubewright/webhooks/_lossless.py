"""What a conversion loses: recorded as a difference, and restored on the way back.

A version may lack fields of another version. `difference(was, seen)` records what a round trip through it loses: `was`
is the object before, and `seen` is the object after. `restore` applies that record to the object when it comes back.
Where it still has the value that was seen, it gets the value that was. Where a client changed it in the meantime, the
client's change stays.

Items of a list are paired by their name or another key, or else by their content: an item that a client changed is not
restored.

Follows the idea of Cluster API's conversion-data annotation, which stores the whole object.
"""

from __future__ import annotations

from typing import Any, Final

from kubewright.machinery.json import JSONArray, JSONObject, equal, is_array, is_object

_ABSENT: Final = object()
_KEYS: Final = ("name", "key", "type", "id", "mountPath", "containerPort", "port", "ip")
"""The fields that usually identify an item of a list."""


def difference(was: JSONObject, seen: JSONObject) -> JSONObject | None:
    """Return what `restore` needs to turn `seen` into `was`; None if they are equal."""
    return _difference(was, seen)


def restore(record: object, value: JSONObject) -> JSONObject:
    """Return `value` with what `record` restores. Parts of a record that `difference` does not write are ignored."""
    found = _restored(record, value)
    return found if is_object(found) else value


def _difference(was: Any, seen: Any) -> JSONObject | None:
    if was is not _ABSENT and seen is not _ABSENT and equal(was, seen):
        return None
    if is_object(was) and is_object(seen):
        return {"fields": _of_fields(was, seen)}
    if is_array(was) and is_array(seen):
        if key := _key_of(was, seen):
            return _of_items(was, seen, key)
        if len(was) == len(seen):
            return {"pairs": _of_pairs(was, seen)}
    return _changed(was, seen)


def _changed(was: Any, seen: Any) -> JSONObject:
    values = {"was": was, "seen": seen}
    return {"value": {name: value for name, value in values.items() if value is not _ABSENT}}


def _of_fields(was: JSONObject, seen: JSONObject) -> JSONObject:
    names = list(dict.fromkeys([*was, *seen]))
    found = {name: _difference(was.get(name, _ABSENT), seen.get(name, _ABSENT)) for name in names}
    return {name: each for name, each in found.items() if each is not None}


def _of_items(was: JSONArray, seen: JSONArray, key: str) -> JSONObject:
    before, after = _by(was, key), _by(seen, key)
    names = list(dict.fromkeys([*before, *after]))
    found = [(name, _difference(before.get(name, _ABSENT), after.get(name, _ABSENT))) for name in names]
    changes = [[name, each] for name, each in found if each is not None]
    return {"key": key, "items": changes, "was": list(before), "seen": list(after)}


def _of_pairs(was: JSONArray, seen: JSONArray) -> JSONArray:
    """Return pairs of the items that differ, and of others that look like one of them after the round trip."""
    pairs = list(zip(seen, was, strict=True))
    lost = [now for now, before in pairs if not equal(now, before)]
    return [[now, before] for now, before in pairs if any(equal(now, each) for each in lost)]


def _restored(record: object, value: Any) -> Any:
    if not is_object(record):
        return value
    if is_object(change := record.get("value")):
        same = equal(change["seen"], value) if "seen" in change and value is not _ABSENT else False
        gone = "seen" not in change and value is _ABSENT
        return change.get("was", _ABSENT) if same or gone else value
    if is_object(value) and is_object(fields := record.get("fields")):
        return _with_fields(fields, value)
    if is_array(value):
        if is_array(pairs := record.get("pairs")):
            return _with_pairs(pairs, value)
        if is_array(record.get("items")):
            return _with_items(record, value)
    return value


def _with_fields(fields: JSONObject, value: JSONObject) -> JSONObject:
    out = dict(value)
    for name, record in fields.items():
        found = _restored(record, out.get(name, _ABSENT))
        if found is _ABSENT:
            out.pop(name, None)
        else:
            out[name] = found
    return out


def _with_pairs(pairs: JSONArray, value: JSONArray) -> JSONArray:
    left: list[JSONArray] = [each for each in pairs if is_array(each) and len(each) == 2]
    out: JSONArray = []
    for item in value:
        found = next((each for each in left if equal(each[0], item)), None)
        if found is not None:
            left.remove(found)
        out.append(item if found is None else found[1])
    return out


def _with_items(record: JSONObject, value: JSONArray) -> JSONArray:
    key = record.get("key", "")
    if not _identifies(key, value):
        return value
    items = _by(value, key)
    unchanged_order = [*items] == record.get("seen")
    for each in record["items"]:
        if not is_array(each) or len(each) != 2:
            continue
        name, change = each
        found = _restored(change, items.get(name, _ABSENT))
        if found is _ABSENT:
            items.pop(name, None)
        else:
            items[name] = found
    order: JSONArray = record.get("was", []) if unchanged_order else []
    ordered = {name: items[name] for name in order if name in items}
    return list((ordered | items).values())


def _key_of(was: JSONArray, seen: JSONArray) -> str:
    """Return the field that identifies the items of both lists; "" if there is none.

    If both lists have items that the other lacks, the round trip has changed the field.
    """
    for key in _KEYS:
        if _identifies(key, was) and _identifies(key, seen):
            before, after = set(_by(was, key)), set(_by(seen, key))
            if before <= after or after <= before:
                return key
    return ""


def _identifies(key: str, items: JSONArray) -> bool:
    if not all(is_object(each) and each.get(key).__class__ in (str, int) for each in items):
        return False
    return len({each[key] for each in items}) == len(items)


def _by(items: JSONArray, key: str) -> dict[Any, Any]:
    return {each[key]: each for each in items}
