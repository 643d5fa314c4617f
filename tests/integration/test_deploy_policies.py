"""Admission policies of a project are deployed with it, and deleted with it."""

from __future__ import annotations

import pytest

from integration.deployed import Deployed
from kubewright import APIError, Client, NotFound, ObjectMeta
from kubewright.apis.admissionregistration.v1 import (
    MutatingAdmissionPolicyBinding,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from kubewright.models import Object
from kubewright.testing import eventually, gone

POLICIES = """
from kubewright.policies import ApplyConfiguration, MutatingPolicy, ValidatingPolicy, Validation

policies = [
    ValidatingPolicy(
        "{name}",
        Gadget,
        operations=["CREATE", "DELETE"],
        validations=[
            Validation("object == null || object.metadata.name != 'bad'", message="bad names are refused"),
            Validation("request.operation != 'DELETE'", message="gadgets are kept"),
        ],
    ),
    MutatingPolicy(
        "texts",
        Gadget,
        match_conditions={{"has-no-text": "object.spec.text == ''"}},
        mutations=[ApplyConfiguration("Object{{spec: Object.spec{{text: 'from the policy'}}}}")],
    ),
]
manager = manager.replace(policies=policies)
"""


async def answer(client: Client, obj: Object) -> str:
    """Return why a create would be rejected; "" if it would not."""
    try:
        await client.create(obj, dry_run=True)
    except APIError as error:
        return str(error)
    return ""


async def test_policies_are_enforced_from_deploy_to_undeploy(deployed: Deployed, namespace: str) -> None:
    project, client = deployed.project, deployed.client
    program = (project.folder / "gadgets.py").read_text()
    start = program.index("if __name__")

    def write(name: str) -> None:
        (project.folder / "gadgets.py").write_text(program[:start] + POLICIES.format(name=name) + program[start:])

    write("names")
    said = await deployed.good("deploy", "--no-wait")
    assert f"validatingadmissionpolicy.admissionregistration.k8s.io/{project.name}-names created" in said
    binding = await client.get(ValidatingAdmissionPolicyBinding, f"{project.name}-names")
    assert binding.spec.policy_name == f"{project.name}-names"
    await client.get(MutatingAdmissionPolicyBinding, f"{project.name}-texts")

    kind = project.kind()
    bad = kind(metadata=ObjectMeta(name="bad", namespace=namespace))

    async def is_enforced() -> None:  # a real API server notices policies, and the schema of a new CRD, after a while
        assert "bad names are refused" in await answer(client, bad)

    await eventually(is_enforced)
    await project.create(client, namespace)
    gadget = await client.get(kind, "one", namespace=namespace)
    assert gadget.spec.text == "from the policy"  # type: ignore[attr-defined]

    assert "policy" not in (await deployed.run("doctor"))[1]
    await client.delete(MutatingAdmissionPolicyBinding, f"{project.name}-texts")
    found = (await deployed.run("doctor"))[1]
    assert f"mutatingadmissionpolicybinding/{project.name}-texts: does not exist, so it is not enforced" in found

    write("other-names")
    said = await deployed.good("deploy", "--no-wait")
    assert f"validatingadmissionpolicy.admissionregistration.k8s.io/{project.name}-names deleted" in said
    await gone(client.get, ValidatingAdmissionPolicy, f"{project.name}-names")
    await client.get(ValidatingAdmissionPolicy, f"{project.name}-other-names")

    await deployed.good("undeploy", "--yes")
    with pytest.raises(NotFound):
        await client.get(ValidatingAdmissionPolicy, f"{project.name}-other-names")
    with pytest.raises(NotFound):
        await client.get(MutatingAdmissionPolicyBinding, f"{project.name}-texts")
