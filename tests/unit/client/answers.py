"""A server with prepared answers, and a clock for the pauses between attempts."""

from __future__ import annotations

from kubewright.http.message import Request, Response
from kubewright.testing import VirtualClock


class Answers:
    """Handler that returns the given answers in turn, repeats the last one, and records the requests."""

    def __init__(self, *answers: Response) -> None:
        self.requests: list[Request] = []
        self._answers = list(answers) or [Response(200, {}, b"ok")]

    async def __call__(self, request: Request) -> Response:
        self.requests.append(request)
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


class SkippingClock(VirtualClock):
    """A clock on which each sleep of the transport ends at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await self.advance(seconds)
