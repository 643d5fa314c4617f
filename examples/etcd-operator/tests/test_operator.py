"""The operator as a whole."""

from kubewright import Manager


async def test_the_operator_starts_with_the_permissions_that_it_declares(operator: Manager) -> None:
    await operator.wait_ready()
