"""A client that reads from the cache and writes to the server, and whose reads see its own writes.

After a write, a read of that key waits until the cache has reached the version that the write made, or has seen the
deletion; a list of a kind waits for all of this client's writes of that kind. When the cache does not get there within
`patience` seconds the read goes to the server instead: slow, never stale.
"""

from __future__ import annotations

from kubewright.cache.cache import Cache
from kubewright.client.client import Client


class CachedClient(Client):
    """Has the methods of a `Client`; `get` and `list` read `cache`, all else goes to the server."""

    def __init__(self, client: Client, cache: Cache, *, patience: float = 5.0) -> None: ...
