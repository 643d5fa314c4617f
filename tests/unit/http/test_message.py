"""The pipe between a writer and a reader."""

from __future__ import annotations

import asyncio

import pytest

from kubewright.http.message import Pipe, PipeBroken


async def test_a_late_reader_gets_one_chunk() -> None:
    pipe = Pipe()
    for word in (b"a", b"b", b"c"):
        assert pipe.write(word)
    assert await anext(pipe) == b"abc"


async def test_a_waiting_reader_gets_the_data_and_then_the_end() -> None:
    pipe = Pipe()
    reading = asyncio.create_task(_all(pipe))
    await asyncio.sleep(0)
    pipe.write(b"a")
    pipe.write(b"b")
    await asyncio.sleep(0)
    pipe.write(b"c")
    pipe.close()
    assert b"".join(await reading) == b"abc"
    assert not pipe.write(b"too late")


async def test_an_error_follows_the_data_before_it() -> None:
    pipe = Pipe()
    pipe.write(b"a")
    pipe.close(ConnectionError("lost"))
    assert await anext(pipe) == b"a"
    with pytest.raises(ConnectionError, match="lost"):
        await anext(pipe)


async def test_a_reader_that_falls_behind_the_limit_breaks_the_pipe() -> None:
    pipe = Pipe(limit=4)
    assert pipe.write(b"1234")
    assert await anext(pipe) == b"1234"
    assert pipe.write(b"12")
    assert not pipe.write(b"345")
    assert pipe.closed
    assert pipe.size == 0
    with pytest.raises(PipeBroken, match="more than 4 bytes behind"):
        await anext(pipe)


async def test_on_abandon_is_called_once_when_the_reader_stops() -> None:
    told: list[bool] = []
    pipe = Pipe(on_abandon=lambda: told.append(True))
    pipe.write(b"unread")
    await pipe.aclose()
    await pipe.aclose()
    assert told == [True]
    assert not pipe.write(b"more")
    assert await _all(pipe) == []


async def test_on_abandon_is_not_called_after_the_end() -> None:
    told: list[bool] = []
    pipe = Pipe(on_abandon=lambda: told.append(True))
    pipe.close()
    await pipe.aclose()
    assert told == []


async def test_a_cancelled_reader_loses_nothing() -> None:
    pipe = Pipe()
    reading = asyncio.create_task(_all(pipe))
    await asyncio.sleep(0)
    pipe.write(b"a")
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    pipe.write(b"b")
    assert await anext(pipe) == b"ab"


async def _all(pipe: Pipe) -> list[bytes]:
    return [chunk async for chunk in pipe]
