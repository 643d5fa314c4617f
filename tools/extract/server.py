"""A plain client of the API server: one request, one answer, any media type."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

from kubewright.client._config import Config
from kubewright.machinery.json import JSONObject


class Server:
    def __init__(self, config: Config) -> None:
        assert isinstance(config.ca, bytes)
        self._config = config
        self._context = ssl.create_default_context(cadata=config.ca.decode())

    def get(self, path: str, accept: str = "application/json") -> bytes:
        return self._send("GET", path, None, accept)

    def dry_run(self, path: str, body: JSONObject) -> JSONObject:
        """Return what the server would store for `body`. Raises RuntimeError with the message of a rejection."""
        return self.create(f"{path}?dryRun=All&fieldManager=golden", body)

    def create(self, path: str, body: JSONObject) -> JSONObject:
        created: JSONObject = json.loads(self._send("POST", path, json.dumps(body).encode()))
        return created

    def _send(self, method: str, path: str, body: bytes | None, accept: str = "application/json") -> bytes:
        headers = {
            "Authorization": f"Bearer {self._config.token}",
            "Accept": accept,
            "Content-Type": "application/json",
        }
        request = urllib.request.Request(self._config.server + path, data=body, headers=headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context) as response:
                return bytes(response.read())
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()}") from error
