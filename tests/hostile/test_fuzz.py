"""A short sample of the fuzzer: `make fuzz` runs it for longer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hostile.fuzz import Failure, Fuzzer, batches_of, explained, step

SEED = 12
STEPS = 300


@pytest.mark.timeout(600)
async def test_hostile_requests_harm_nobody(tmp_path: Path) -> None:
    fuzzer = Fuzzer(tmp_path, memory=False)
    try:
        await fuzzer.run(batches_of(SEED, range(STEPS), 150))
    except Failure as failure:
        raise AssertionError(explained(await fuzzer.reduce(failure), SEED)) from failure


def test_a_step_depends_on_its_seed_and_number_alone() -> None:
    assert step(SEED, 7) == step(SEED, 7)
    assert step(SEED, 7) != step(SEED, 8)
    assert step(SEED, 7) != step(SEED + 1, 7)
