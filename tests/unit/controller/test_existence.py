"""The hot loop detector's memory of created objects."""

from kubewright.apis.meta.v1 import ManagedFieldsEntry
from kubewright.controllers._hotloop import ROUNDS, Existence
from kubewright.testing import VirtualClock

from .workshop import config_map

MANY = 1500


def test_a_fight_over_one_object_is_found_among_many_other_writes() -> None:
    existence = Existence(VirtualClock())
    made = 0

    def is_fought_over(name: str) -> bool:
        nonlocal made
        made += 1
        obj = config_map(name)
        obj.metadata.uid = str(made)
        obj.metadata.managed_fields = [ManagedFieldsEntry(manager="ours")]
        return existence.written(obj)

    assert [is_fought_over("web") for _ in range(ROUNDS)] == [False] * ROUNDS
    assert not any(is_fought_over(f"other-{number}") for number in range(MANY))
    assert is_fought_over("web")
