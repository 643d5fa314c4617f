"""`kubewright doctor` and `status`: reconciles that fail, and agreement of the two."""

from __future__ import annotations

import pytest

from integration.command import NO_SERVERS
from integration.deployed import Deployed
from kubewright.testing import eventually

pytestmark = pytest.mark.usefixtures("processes")

NAMESPACES = """
from kubewright import Context, Manager, controller
from kubewright.apis.core.v1 import Namespace
from kubewright.controllers.predicates import Predicate


@controller(Namespace, predicate=Predicate(lambda event: event.key.name == "{namespace}"))
async def reconcile(ctx: Context[Namespace]) -> None:
    {line}


manager = Manager([reconcile], name="gadgets")

if __name__ == "__main__":
    manager.main()
"""


async def test_reconciles_that_fail_are_found_though_the_object_was_ready(deployed: Deployed, namespace: str) -> None:
    project = deployed.project
    await deployed.good("deploy")
    await project.create(deployed.client, namespace)
    await eventually(project.text, deployed.client, namespace)
    assert "Nothing is wrong." in await deployed.good("doctor")
    await deployed.good("status")
    project.write("str(1 / 0)")
    await deployed.good("deploy")

    async def is_found() -> None:
        said = await deployed.failed("doctor")
        assert f"gadget/one (in {namespace}): its reconciles fail: ZeroDivisionError: division by zero; see" in said
        said = await deployed.failed("status")
        assert "its reconciles fail: ZeroDivisionError: division by zero" in said

    await eventually(is_found)
    project.write()
    await deployed.good("deploy")

    async def all_is_well() -> None:
        assert "Nothing is wrong." in await deployed.good("doctor")

    await eventually(all_is_well)


async def test_failing_reconciles_of_a_kind_of_kubernetes_are_found(deployed: Deployed, namespace: str) -> None:
    program = deployed.project.folder / "gadgets.py"
    program.write_text(NAMESPACES.format(namespace=namespace, line="1 / 0"))
    await deployed.good("deploy")

    async def is_found() -> None:
        said = await deployed.failed("doctor")
        assert f"namespace/{namespace}: its reconciles fail: ZeroDivisionError: division by zero" in said

    await eventually(is_found)
    said = await deployed.failed("status")
    assert "No CRDs in this project" in said
    assert "Namespace" in said
    assert "its reconciles fail: ZeroDivisionError" in said
    assert "CONVERGED" not in said
    found = await deployed.document("status")
    assert [each["name"] for each in found["failing"]] == [namespace]
    assert found["converged"] is False
    for command in ("install", "uninstall"):
        assert await deployed.good(command) == "No CRDs in this project\n"


async def test_doctor_and_status_agree_right_after_a_deploy(deployed: Deployed) -> None:
    await deployed.good("deploy")
    assert "Nothing is wrong." in await deployed.good("doctor")
    found = await deployed.document("status")
    assert [each["leads"] for each in found["pods"]] == [True]


async def test_run_warns_of_a_deployed_manager_that_reconciles_the_same_objects(deployed: Deployed) -> None:
    project = deployed.project
    await deployed.good("deploy")
    said = await deployed.killed("run", *NO_SERVERS, when="Warning: ")
    assert f"holds the Lease {project.namespace}/gadgets, and reconciles the same objects as this process" in said
    assert f"kubectl scale deployment {project.deployment} --namespace {project.namespace} --replicas=0" in said
