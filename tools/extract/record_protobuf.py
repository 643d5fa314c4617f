"""Records objects as a real API server sends them, in protobuf and in JSON, for the codec's tests.

Run it with `python tools/extract/record_protobuf.py`. The files in `tests/golden/protobuf` differ each time in uids and
times, so run it only to record something new.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import yaml
from server import Server

from kubewright_controlplane.real import RealControlPlane

GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "protobuf"
OBJECTS = Path(__file__).with_name("recorded.yaml")
PROTOBUF = "application/vnd.kubernetes.protobuf"


async def main() -> None:
    async with RealControlPlane(controllers=False) as control_plane:
        server = Server(control_plane.config)
        await asyncio.to_thread(record, server)


def record(server: Server) -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    for entry in yaml.safe_load_all(OBJECTS.read_text()):
        collection, obj = entry["collection"], entry["object"]
        server.create(collection, obj)
        path = f"{collection}/{obj['metadata']['name']}"
        write(server, obj["kind"].lower(), path)
    write(server, "configmaplist", "/api/v1/namespaces/default/configmaps")


def write(server: Server, name: str, path: str) -> None:
    before, body, after = b"", b"", server.get(path)
    while before != after:  # the server's own controllers may still be writing to it
        before, body, after = after, server.get(path, PROTOBUF), server.get(path)
    (GOLDEN / f"{name}.pb").write_bytes(body)
    (GOLDEN / f"{name}.json").write_text(json.dumps(json.loads(after), indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    asyncio.run(main())
