"""Changes of Instances, which KUDO admits or refuses."""

from __future__ import annotations

from typing import Any, Final

Document = dict[str, Any]


def _plan() -> Document:
    return {"strategy": "serial", "phases": []}


def _version(name: str, parameters: list[Document], *plans: str) -> Document:
    spec = {"parameters": parameters, "plans": {each: _plan() for each in plans}}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def _instance(
    version: str = "zk-1", plan: Document | None = None, *, deleted: bool = False, **parameters: str
) -> Document:
    metadata: Document = {"name": "zk", "namespace": "default"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    spec = {"operatorVersion": {"name": version}, "parameters": parameters, "planExecution": plan or {}}
    return {"metadata": metadata, "spec": spec}


def _running(name: str, uid: str = "1", status: str = "IN_PROGRESS") -> Document:
    return {"planName": name, "uid": uid, "status": status}


_PARAMETERS: Final[list[Document]] = [
    {"name": "A", "default": "1"},
    {"name": "B", "default": "1", "trigger": "backup"},
    {"name": "D", "default": "1", "trigger": "deploy"},
    {"name": "I", "default": "1", "immutable": True},
    {"name": "N", "default": "1", "value-type": "integer"},
    {"name": "R", "required": True},
    {"name": "E", "default": "a", "enum": ["a", "b"]},
    {"name": "X", "default": "1", "trigger": "absent"},
]
_ALL: Final = ("deploy", "update", "upgrade", "backup", "cleanup")
_ONE: Final = _version("zk-1", _PARAMETERS, *_ALL)
_DEPLOY_ONLY: Final = _version("zk-1", _PARAMETERS, "deploy")
_BACKUP_ONLY: Final = _version("zk-1", _PARAMETERS, "backup")
_TWO: Final = _version(
    "zk-2",
    [
        {"name": "A", "default": "1", "immutable": True},
        *_PARAMETERS[2:4],
        {"name": "R", "required": True},
        {"name": "NEW", "default": "1"},
    ],
    "deploy",
    "update",
)
_TWO_UPGRADE: Final = _version("zk-2", [*_PARAMETERS, {"name": "NEW", "trigger": "backup"}], *_ALL)
_TWO_IMMUTABLE: Final = _version("zk-2", [*_PARAMETERS, {"name": "NEW", "default": "1", "immutable": True}], *_ALL)


def _update(old: Document, new: Document, ov: Document = _ONE, old_ov: Document | None = None) -> Document:
    return {"ask": "update", "old": old, "new": new, "ov": ov, "oldOv": old_ov or ov}


def _upgrade(old: Document, new: Document, ov: Document = _TWO) -> Document:
    return _update(old, new, ov, _ONE)


_SET: Final = {"R": "r"}
ADMISSIONS: Final[dict[str, Document]] = {
    # creation
    "create": {"ask": "create", "new": _instance(**_SET), "ov": _ONE},
    "create with an immutable value": {"ask": "create", "new": _instance(R="r", I="5"), "ov": _ONE},
    "create without a required value": {"ask": "create", "new": _instance(), "ov": _ONE},
    "create with a bad integer": {"ask": "create", "new": _instance(R="r", N="x"), "ov": _ONE},
    "create outside of an enum": {"ask": "create", "new": _instance(R="r", E="c"), "ov": _ONE},
    "create with an unknown parameter": {"ask": "create", "new": _instance(R="r", Z="c"), "ov": _ONE},
    # parameters
    "no change": _update(_instance(**_SET), _instance(**_SET)),
    "a parameter": _update(_instance(**_SET), _instance(R="r", A="2")),
    "a parameter with only deploy": _update(_instance(**_SET), _instance(R="r", A="2"), _DEPLOY_ONLY),
    "a parameter without plans": _update(_instance(**_SET), _instance(R="r", A="2"), _BACKUP_ONLY),
    "a parameter with a trigger": _update(_instance(**_SET), _instance(R="r", B="2")),
    "a removed parameter": _update(_instance(R="r", B="2"), _instance(**_SET)),
    "two triggers": _update(_instance(**_SET), _instance(R="r", B="2", D="2")),
    "a trigger and none": _update(_instance(**_SET), _instance(R="r", B="2", A="2")),
    "an absent trigger": _update(_instance(**_SET), _instance(R="r", X="2")),
    "an unknown parameter": _update(_instance(**_SET), _instance(R="r", Z="2")),
    "an unknown parameter that is removed": _update(_instance(R="r", Z="2"), _instance(**_SET)),
    "an immutable parameter": _update(_instance(R="r", I="1"), _instance(R="r", I="2")),
    "a bad integer": _update(_instance(**_SET), _instance(R="r", N="x")),
    "a required parameter that is removed": _update(_instance(**_SET), _instance()),
    "a parameter while its plan runs": _update(
        _instance("zk-1", _running("backup"), **_SET), _instance("zk-1", _running("backup"), R="r", B="2")
    ),
    "a parameter while another plan runs": _update(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-1", _running("deploy"), R="r", B="2")
    ),
    "a parameter and a plan": _update(_instance(**_SET), _instance("zk-1", {"planName": "backup"}, R="r", A="2")),
    # plans
    "a plan": _update(_instance(**_SET), _instance("zk-1", {"planName": "backup"}, **_SET)),
    "an unknown plan": _update(_instance(**_SET), _instance("zk-1", {"planName": "restore"}, **_SET)),
    "the plan cleanup": _update(_instance(**_SET), _instance("zk-1", {"planName": "cleanup"}, **_SET)),
    "another plan": _update(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-1", _running("backup", "2"), **_SET)
    ),
    "no plan any longer": _update(_instance("zk-1", _running("deploy"), **_SET), _instance(**_SET)),
    "the same plan again": _update(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-1", _running("deploy", "2"), **_SET)
    ),
    "a plan that continues": _update(
        _instance("zk-1", _running("deploy", "1", "PENDING"), **_SET), _instance("zk-1", _running("deploy"), **_SET)
    ),
    "a plan that is complete": _update(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-1", _running("deploy", "1", "COMPLETE"), **_SET)
    ),
    "a plan that has failed": _update(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-1", _running("deploy", "1", "FATAL_ERROR"), **_SET)
    ),
    # upgrades
    "an upgrade": _upgrade(_instance(R="r", A="1"), _instance("zk-2", R="r", A="1")),
    "an upgrade with the plan upgrade": _upgrade(_instance(**_SET), _instance("zk-2", **_SET), _TWO_UPGRADE),
    "an upgrade to a value that becomes immutable": _upgrade(_instance(**_SET), _instance("zk-2", **_SET)),
    "an upgrade to a new immutable value": _upgrade(_instance(**_SET), _instance("zk-2", **_SET), _TWO_IMMUTABLE),
    "an upgrade with a new immutable value": _upgrade(
        _instance(**_SET), _instance("zk-2", R="r", NEW="5"), _TWO_IMMUTABLE
    ),
    "an upgrade that removes a parameter": _upgrade(
        _instance(R="r", A="1", B="7"), _instance("zk-2", R="r", A="1", B="7")
    ),
    "an upgrade with an immutable change": _upgrade(
        _instance(R="r", A="1", I="1"), _instance("zk-2", R="r", A="1", I="2")
    ),
    "an upgrade with a parameter of deploy": _upgrade(_instance(R="r", A="1"), _instance("zk-2", R="r", A="1", D="2")),
    "an upgrade with a parameter of another plan": _upgrade(
        _instance(**_SET), _instance("zk-2", R="r", B="2"), _TWO_UPGRADE
    ),
    "an upgrade with a new parameter": _upgrade(_instance(**_SET), _instance("zk-2", R="r", NEW="2"), _TWO_UPGRADE),
    "an upgrade with a plan": _upgrade(
        _instance(**_SET), _instance("zk-2", {"planName": "backup"}, **_SET), _TWO_UPGRADE
    ),
    "an upgrade while a plan runs": _upgrade(
        _instance("zk-1", _running("deploy"), **_SET), _instance("zk-2", _running("deploy"), **_SET), _TWO_UPGRADE
    ),
    # deletion
    "cleanup of the controller": _update(
        _instance(deleted=True, **_SET), _instance("zk-1", _running("cleanup"), deleted=True, **_SET)
    ),
    "cleanup in place of a plan": _update(
        _instance("zk-1", _running("deploy"), deleted=True, **_SET),
        _instance("zk-1", _running("cleanup", "2"), deleted=True, **_SET),
    ),
    "another plan than cleanup": _update(
        _instance(deleted=True, **_SET), _instance("zk-1", _running("backup"), deleted=True, **_SET)
    ),
    "a plan in place of cleanup": _update(
        _instance("zk-1", _running("cleanup"), deleted=True, **_SET), _instance(deleted=True, **_SET)
    ),
    "a parameter while it is deleted": _update(
        _instance(deleted=True, **_SET), _instance("zk-1", deleted=True, R="r", A="2")
    ),
    "an upgrade while it is deleted": _upgrade(
        _instance(deleted=True, **_SET), _instance("zk-2", deleted=True, **_SET), _TWO_UPGRADE
    ),
}
