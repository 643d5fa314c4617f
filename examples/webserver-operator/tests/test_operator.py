"""The operator as a whole."""

from kubewright import Manager


async def test_it_starts_with_the_rights_that_it_declares(operator: Manager) -> None:
    await operator.wait_ready()
