"""Changes of Instances are admitted and refused as by KUDO, and objects get the same metadata."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright.machinery.errors import Forbidden
from kubewright.models import codec
from kubewright.packages import Instance, OperatorVersion
from kubewright.packages._admission import admit_create, admit_update
from kubewright.packages._enhancing import Origin, add_hashes, enhance
from kubewright.packages._rendering import documents_in
from kudo.admissions import ADMISSIONS
from kudo.objects import ENHANCEMENTS
from kudo.oracle import recorded

ORIGIN = Origin(
    operator="zookeeper", operator_version="1.0.0", instance="zk", plan="deploy", phase="main", step="all",
    uid="plan-uid",
)  # fmt: skip


def instance(document: dict[str, Any]) -> Instance:
    return codec.from_dict(Instance, {"apiVersion": "kudo.dev/v1beta1", "kind": "Instance", **document})


def version(document: dict[str, Any]) -> OperatorVersion:
    return codec.from_dict(OperatorVersion, {"apiVersion": "kudo.dev/v1beta1", "kind": "OperatorVersion", **document})


@pytest.mark.parametrize("name", [name for name, each in ADMISSIONS.items() if each["ask"] == "create"])
def test_a_new_instance_is_admitted_as_by_kudo(name: str) -> None:
    answer, question = recorded()[f"admission {name}"], ADMISSIONS[name]
    made, installed = instance(question["new"]), version(question["ov"])
    if "error" in answer:
        with pytest.raises(Forbidden):
            admit_create(made, installed)
        return
    admit_create(made, installed)
    assert made.spec.parameters == answer["parameters"]
    assert made.spec.plan_execution.plan_name == "deploy"
    assert made.spec.plan_execution.uid
    assert made.metadata.finalizers == ["kudo.dev.instance.cleanup"]


@pytest.mark.parametrize("name", [name for name, each in ADMISSIONS.items() if each["ask"] == "update"])
def test_a_change_is_admitted_or_refused_as_by_kudo(name: str) -> None:
    answer, question = recorded()[f"admission {name}"], ADMISSIONS[name]
    old, new = instance(question["old"]), instance(question["new"])
    versions = version(question["ov"]), version(question["oldOv"])
    if "error" in answer:
        with pytest.raises(Forbidden):
            admit_update(old, new, *versions)
        return
    assert admit_update(old, new, *versions) == answer["plan"]
    assert new.spec.parameters == (answer["parameters"] or {})


def test_an_instance_without_a_plan_to_deploy_is_refused() -> None:
    installed = version({"metadata": {"name": "zk-1"}, "spec": {"plans": {"backup": {}}}})
    with pytest.raises(Forbidden, match="OperatorVersion zk-1 has no plan deploy, so it cannot be installed"):
        admit_create(instance({"metadata": {"name": "zk"}}), installed)


@pytest.mark.parametrize("name", ENHANCEMENTS)
async def test_objects_get_the_metadata_of_kudo(name: str) -> None:
    question = ENHANCEMENTS[name]
    existing = {(each["kind"], each["metadata"]["name"]): each for each in question["existing"]}

    async def find(kind: str, name: str) -> dict[str, Any] | None:
        return existing.get((kind, name))

    documents = [each.content for each in documents_in("template", question["text"])]
    for each in documents:
        enhance(each, ORIGIN)
    await add_hashes(documents, find)
    for found, expected in zip(documents, recorded()[f"enhance {name}"]["objects"], strict=True):
        assert metadata(found) == metadata(expected)


def metadata(document: dict[str, Any]) -> list[object]:
    """Return the labels and annotations of an object, of its Pod template and of its claims."""
    spec = document.get("spec") or {}
    template = (spec.get("jobTemplate", {}).get("spec") or spec).get("template") or {}
    found = [document, template, *spec.get("volumeClaimTemplates", [])]
    return [(each.get("metadata") or {}).get(key) for each in found for key in ("labels", "annotations")]
