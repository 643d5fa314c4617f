"""Extracts facts about the built-in kinds from a real API server into the data folder of the embedded one.

Run it with `python tools/extract`, with Kubewright installed and the real control plane built (`make controlplane`).
Unchanged facts produce identical files. `data/README.md` describes each file.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from pathlib import Path

import bootstrap
import columns
import defaults
import discovery
import flags
import openapi
import protobuf
import schemas
from server import Server

from kubewright_controlplane.apiserver import catalog
from kubewright_controlplane.real import RealControlPlane, find_binaries

DATA = (
    Path(__file__)
    .resolve()
    .parents[2]
    .joinpath("packages", "kubewright-controlplane", "src", "kubewright_controlplane", "apiserver", "data")
)
ENVTEST = DATA.parents[1] / "envtest"
GOLDEN = Path(__file__).resolve().parents[2] / "tests" / "golden" / "created.json"
"""Objects as they are sent and as a real server stores them, for the tests."""

QUIET = (
    "ServiceAccount,LimitRanger,TaintNodesByCondition,Priority,DefaultTolerationSeconds,DefaultStorageClass,"
    "StorageObjectInUseProtection,PersistentVolumeClaimResize,RuntimeClass,DefaultIngressClass,ResourceQuota,"
    "PodTopologyLabels"
)
"""Admission plugins that change objects. Without them, only defaults are added to an object."""


async def main() -> None:
    optional = (f"--runtime-config={gv}=true" for gv in catalog.OPTIONAL)
    gates = (f"--feature-gates={each.feature_gate}=true" for each in catalog.OPTIONAL.values())
    arguments = (f"--disable-admission-plugins={QUIET}", *optional, *gates)
    async with RealControlPlane(controllers=False, api_server_arguments=arguments) as control_plane:
        server = Server(control_plane.config)
        await asyncio.to_thread(extract, server)
    async with RealControlPlane(controllers=False) as control_plane:
        await asyncio.to_thread(extract_flags, Server(control_plane.config))


def extract(server: Server) -> None:
    """Write every file of the data folder."""
    groups = discovery.read(server)
    documents = openapi.read(server)
    components, kinds = schemas.merge(documents)
    found = defaults.observe(server, groups, components, kinds)
    report(found.conditional)
    messages = protobuf.read(kinds)
    schemas.state_zeroes(components, messages["messages"])
    schemas.state_defaults(components, found.unconditional)
    write("version.json", json.loads(server.get("/version")))
    write("discovery.json", groups)
    write("columns.json", columns.read(server, groups))
    write("bootstrap.json", bootstrap.read(server))
    write("schemas.json", {"kinds": kinds, "schemas": components})
    write("protobuf.json", messages)
    for old in (DATA / "openapi").glob("*"):
        old.unlink()
    for path, document in documents.items():
        write_bytes(f"openapi/{path.replace('/', '~')}.json", document)
    write("openapi.json", openapi.hashes(documents))
    lines = ",\n".join(json.dumps(each, ensure_ascii=False) for each in found.created)
    conditional = json.dumps(found.conditional, indent=1)
    GOLDEN.write_text(f'{{"conditional": {conditional},\n"created": [\n{lines}\n]}}\n')


def extract_flags(server: Server) -> None:
    """Write what the programs of envtest need to know about the real ones, as they are by default."""
    binaries = find_binaries("etcd", "kube-apiserver")
    ENVTEST.joinpath("kube-apiserver.flags").write_text(flags.of_api_server(binaries))
    ENVTEST.joinpath("etcd.flags").write_text(flags.of_etcd(binaries))
    ENVTEST.joinpath("admission-plugins").write_text(flags.of_admission_plugins(binaries))
    ENVTEST.joinpath("feature-gates").write_text(flags.of_feature_gates(server.get("/metrics").decode()))


def report(conditional: list[str]) -> None:
    print("Fields with conditional defaults, which need code (they are not recorded):")
    for line in conditional:
        print(f"  {line}")


def write(name: str, content: object) -> None:
    write_bytes(name, json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode())


def write_bytes(name: str, content: bytes) -> None:
    path = DATA / f"{name}.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, 9, mtime=0))


if __name__ == "__main__":
    asyncio.run(main())
