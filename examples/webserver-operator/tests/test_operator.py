"""The operator as a whole."""

from kubewright import Manager


async def test_the_operator_starts_with_its_declared_permissions(operator: Manager) -> None:
    await operator.wait_ready()
