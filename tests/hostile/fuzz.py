"""A fuzzer of the embedded control plane: `make fuzz`, or `python -m hostile.fuzz --help`.

It sends steps of hostile requests to a server process. A grammar for each area makes requests that are mostly valid,
and changes them. Each step is made from the seed and its own number alone, so any steps can be repeated without the
others:

    make fuzz FUZZ_ARGS='--seed 7 --steps 12,45'

Checks after each exchange
    Another client is served within a second of time and of the server's CPU time, or in what 3,000 requests cost.
    No answer is an internal error, unless it is one that a real server returns too, and the server logs no error.
    Nobody but administrators sees what is in the namespace `vault`.
Checks after each batch of steps
    Every object can be read, listed, watched, written back and deleted, in all encodings.
    Lists, watches, gets and the server's own counts agree. Revisions rise.
    Discovery and OpenAPI answer.
    Nothing has changed in the namespace `vault`.
    Memory returns: after all objects are deleted, as many Python objects are alive as before.

After a failure it repeats the steps on new servers, drops those that are not needed, prints what remains, and writes
it to a file for `--replay`.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import Final

from hostile import credentials, definitions, documents, framing, targets
from hostile.exchanges import Exchange, Step, described
from hostile.invariants import Invariants
from hostile.server import HISTORY_SECONDS
from hostile.target import Broken, Target, started
from hostile.world import World

BATCH: Final = 100
"""Steps between two checks of everything."""
FAILURES: Final = Path("build/hostile")
_AREAS: Final[dict[str, tuple[int, Callable[[random.Random], list[Exchange]]]]] = {
    "objects": (6, documents.write_objects),
    "patches": (6, documents.patch_objects),
    "definitions": (4, definitions.define_kinds),
    "policies": (3, definitions.policies),
    "queries": (4, targets.queries),
    "paths": (3, targets.paths),
    "credentials": (2, credentials.credentials),
    "framing": (3, framing.framing),
}
"""Share and grammar of each area."""
_WARM: Final = 5
"""Batches before memory is compared: caches with a limit fill up."""
_GROWTH: Final = 1.5
_SLACK: Final = 150_000
"""Objects that caches may hold beyond the ones of the first batches."""
_MEGABYTES: Final = 400.0
_TRIES: Final = 40


def step(seed: int, number: int, areas: Sequence[str] = ()) -> Step:
    """Return a step. It depends on the arguments alone."""
    rng = random.Random(f"{seed}/{number}")
    names = areas or tuple(_AREAS)
    area = rng.choices(names, [_AREAS[name][0] for name in names])[0]
    return Step(area, tuple(_AREAS[area][1](rng)), number)


@dataclass
class Failure(Exception):
    """A promise that the server broke, and the steps after which it did."""

    why: str
    steps: list[Step]


@dataclass
class Fuzzer:
    """Runs steps on a server."""

    folder: Path
    controllers: bool = False
    keep_going: bool = False
    memory: bool = True
    """Whether to wait after each batch until the history is gone, and to compare memory."""
    report: Callable[[str], None] = print

    async def run(self, batches: Iterable[list[Step]]) -> None:
        """Run batches on one server. Raises Failure."""
        done: list[Step] = []
        areas = Counter[str]()
        memory: list[int] = []
        async with started(self._new_folder(), controllers=self.controllers) as target:
            world, invariants = World(target), Invariants(target)
            try:
                await world.create()
                await target.calibrate()
                for number, batch in enumerate(batches):
                    await invariants.follow()
                    done = []
                    for each in batch:
                        done.append(each)
                        areas[each.area] += 1
                        await self._attempt(target.run(each), f"step {each.number}, {each.area}")
                    await self._attempt(world.check(), f"batch {number}")
                    await self._attempt(invariants.check(), f"batch {number}")
                    await self._attempt(world.clean(), f"batch {number}")
                    if self.memory:
                        memory.append(await self._check_memory(target, memory))
                    self.report(
                        f"{areas.total()} steps, batch {number}: {target.cpu():.0f} s of CPU, longest wait"
                        f" {target.slowest:.2f} s, {memory[-1:]} objects; {dict(areas)}"
                    )
            except Broken as error:
                raise Failure(str(error), done) from error
            finally:
                await invariants.close()

    async def _attempt(self, check: Awaitable[None], what: str) -> None:
        try:
            await check
        except Broken as error:
            if not self.keep_going:
                raise
            self.report(f"FAILED {what}: {error}")

    async def _check_memory(self, target: Target, before: list[int]) -> int:
        """Return the number of objects in the server's memory. Raises Broken if it keeps growing."""
        await asyncio.sleep(HISTORY_SECONDS / 2 if before else HISTORY_SECONDS)
        count, megabytes = await target.sample()
        first = max(before[:_WARM], default=count)
        if len(before) > _WARM and (count > first * _GROWTH + _SLACK or megabytes > _MEGABYTES):
            raise Broken(f"memory does not return: {before[0]}, {first}, now {count} objects; {megabytes:.0f} MB")
        return count

    def _new_folder(self) -> Path:
        return Path(mkdtemp(dir=self.folder)) / "server"

    async def reduce(self, failure: Failure) -> Failure:
        """Repeat a failure with fewer steps, then with fewer exchanges in them."""
        last = failure.steps[-1:]
        found = await self._fails(last)
        if found is not None:
            return await self._with_fewer_exchanges(found)
        found = await self._fails(failure.steps)
        if found is None:
            return Failure(f"{failure.why}\n(It did not fail again on a new server.)", failure.steps)
        size = max(1, len(found.steps) // 2)
        tries = 0
        while tries < _TRIES:
            for at in range(0, len(found.steps), size):
                tries += 1
                fewer = found.steps[:at] + found.steps[at + size :]
                again = await self._fails(fewer) if fewer else None
                if again is not None:
                    found = again
                    break
            else:
                if size == 1:
                    break
                size = max(1, size // 2)
        return await self._with_fewer_exchanges(found)

    async def _with_fewer_exchanges(self, failure: Failure) -> Failure:
        for index, each in enumerate(failure.steps):
            for exchange in each.exchanges:
                fewer = [one for one in failure.steps[index].exchanges if one is not exchange]
                steps = [*failure.steps[:index], each.only(fewer), *failure.steps[index + 1 :]]
                again = await self._fails(steps) if fewer else None
                if again is not None and len(again.steps) == len(failure.steps):
                    failure = again
        return failure

    async def _fails(self, steps: list[Step]) -> Failure | None:
        """Run steps on a new server. Returns the failure, if there is one."""
        quiet = Fuzzer(self.folder, self.controllers, memory=self.memory, report=lambda _: None)
        try:
            await quiet.run([steps])
        except Failure as again:
            return again
        return None


def save(failure: Failure, seed: int, folder: Path = FAILURES) -> Path:
    """Write the steps of a failure to a file for `--replay`."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"seed-{seed}-{int(time.time())}.json"
    path.write_text(json.dumps({"why": failure.why, "steps": [each.to_json() for each in failure.steps]}))
    return path


def explained(failure: Failure, seed: int) -> str:
    """Return a failure as text: why, the exchanges, and how to repeat them."""
    lines = [f"Failed with seed {seed}: {failure.why}", ""]
    for each in failure.steps:
        lines += [f"  {each.area}: {described(exchange)}" for exchange in each.exchanges]
    path = save(failure, seed)
    return "\n".join([*lines, "", f"Repeat it: make fuzz FUZZ_ARGS='--replay {path}'"])


def batches_of(seed: int, numbers: Iterable[int], size: int, areas: Sequence[str] = ()) -> Iterable[list[Step]]:
    """Yield steps in batches."""
    iterator = iter(numbers)
    while some := list(itertools.islice(iterator, size)):
        yield [step(seed, number, areas) for number in some]


def _until(end: float, numbers: Iterable[int]) -> Iterable[int]:
    return itertools.takewhile(lambda _: time.monotonic() < end, numbers)


async def fuzz(asked: argparse.Namespace, folder: Path) -> bool:
    """Return whether the server kept all promises."""
    seed = asked.seed if asked.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}", flush=True)
    areas = asked.areas.split(",") if asked.areas else ()
    fuzzer = Fuzzer(folder, asked.controllers, asked.keep_going, report=lambda line: print(line, flush=True))
    if asked.replay:
        batches: Iterable[list[Step]] = [
            [Step.from_json(each) for each in json.loads(asked.replay.read_text())["steps"]]
        ]
    else:
        end = time.monotonic() + (asked.hours * 3600 or asked.minutes * 60)
        numbers = map(int, asked.steps.split(",")) if asked.steps else _until(end, itertools.count())
        batches = batches_of(seed, numbers, asked.batch, areas)
    try:
        await fuzzer.run(batches)
    except Failure as failure:
        print(f"Failed: {failure.why[:3000]}\nReducing {len(failure.steps)} steps", flush=True)
        print(explained(failure if asked.replay else await fuzzer.reduce(failure), seed), flush=True)
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, help="default: a random one")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--hours", type=float, default=0.0, help="instead of --minutes")
    parser.add_argument("--steps", help="numbers of steps to run, separated by commas; default: until the time is up")
    parser.add_argument("--areas", help=f"areas, separated by commas; default: all of {', '.join(_AREAS)}")
    parser.add_argument("--batch", type=int, default=BATCH, help="steps between two checks of everything")
    parser.add_argument("--controllers", action="store_true", help="run the controllers and nodes too")
    parser.add_argument("--keep-going", action="store_true", help="print failures, and continue with the next step")
    parser.add_argument("--replay", type=Path, help="file of a failure to repeat")
    asked = parser.parse_args()
    with TemporaryDirectory(prefix="kubewright-hostile-") as folder:
        sys.exit(0 if asyncio.run(fuzz(asked, Path(folder))) else 1)


if __name__ == "__main__":
    main()
