"""What a container has written, line by line, and what it writes from now on.

    async for line in pod_logs(client, "web-0", namespace="d", follow=True):
        ...

Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/#get-read-log-of-the-specified-pod
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import datetime, timedelta

from kubewright.client._client import Client
from kubewright.client._rest import ANY
from kubewright.machinery import time


async def pod_logs(
    client: Client,
    pod: str,
    *,
    namespace: str,
    container: str | None = None,
    previous: bool = False,
    follow: bool = False,
    since: timedelta | datetime | None = None,
    tail_lines: int | None = None,
    limit_bytes: int | None = None,
    timestamps: bool = False,
) -> AsyncGenerator[str, None]:
    """The lines of the log of a Pod's container, without their ends; what is not UTF-8 in them is replaced.

    `container` need not be named when there is one. `previous`: of the container before its last restart. `follow`: go
    on with what is written, until the container ends; its silence is borne. `since` a moment, or so long ago;
    `tail_lines` at most from the end; `limit_bytes` at most of all; `timestamps`: each line begins with its time.

    It is one stream and breaks as streams do, with ConnectionFailed: go on with `since`. Close it
    (`contextlib.aclosing`) when you leave before its end. Raises NotFound, and BadRequest for a container that has not
    started, or is to be named.
    """
    from kubewright.apis.core.v1 import Pod  # all of core/v1 comes with it

    query = {
        "container": container,
        "previous": "true" if previous else None,
        "follow": "true" if follow else None,
        "sinceSeconds": str(math.ceil(since.total_seconds())) if isinstance(since, timedelta) else None,
        "sinceTime": time.format(since) if isinstance(since, datetime) else None,
        "tailLines": None if tail_lines is None else str(tail_lines),
        "limitBytes": None if limit_bytes is None else str(limit_bytes),
        "timestamps": "true" if timestamps else None,
    }
    path = client.endpoint(Pod).item(pod, namespace, "log")
    begun: list[bytes] = []
    async with aclosing(client.rest.stream(path, query, accept=ANY)) as chunks:
        async for chunk in chunks:
            first, *others = chunk.split(b"\n")
            begun.append(first)
            if others:
                yield _text(begun)
                for line in others[:-1]:
                    yield _text([line])
                begun = [others[-1]]
    if any(begun):
        yield _text(begun)


def _text(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode("utf-8", "replace")
