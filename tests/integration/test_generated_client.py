"""`kubewright generate client`: a package for the users of some kinds, used without the operator."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from integration import forked
from integration.command import COMMAND, environment
from integration.manifests import GOLDEN
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.client import Unstructured
from kubewright.machinery import yaml
from kubewright.models import APIResource, codec
from kubewright.testing import Cluster, eventually

FULL = GOLDEN / "full"
MODELS = GOLDEN.parent / "models"
PYRIGHT = '{"include": ["."], "extraPaths": ["src"], "typeCheckingMode": "strict", "pythonVersion": "3.11"}'


def generate(*arguments: str | Path, folder: Path = FULL, kubeconfig: Path | None = None) -> str:
    done = forked.run(COMMAND, "generate", "client", *arguments, folder=folder, environment=environment(kubeconfig))
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client of the golden project, generated from its classes."""
    folder = tmp_path_factory.mktemp("package") / "fleet-client"
    generate("--output", folder)
    return folder


def refused(*arguments: str | Path) -> str:
    done = forked.run(COMMAND, "generate", "client", *arguments, folder=FULL, environment=environment(None))
    assert done.returncode == 2, done.stdout
    return done.stderr.splitlines()[-1]


USE = """
from fleet_client import Clientset, Informers
from fleet_client.fleet_v1 import Harbour, Ship, ShipSpec
from kubewright import Config, ObjectMeta
from kubewright.client import MergePatch


async def use(config: Config) -> int:
    async with Clientset(config) as clients:
        ships = clients.fleet_v1.ships("default")
        ship: Ship = await ships.create(Ship(metadata=ObjectMeta(name="argo"), spec=ShipSpec(home="iolcus")))
        ship = await ships.patch("argo", MergePatch({"spec": {"crew": 50}}))
        crew: int = ship.spec.crew
        informers = Informers(clients, namespace="default")
        found: Ship | None = informers.fleet_v1.ships.lister.get("argo", "default")
        harbours: list[Harbour] = list(await clients.fleet_v1.harbours().list())
        async for event in ships.watch(timeout=1):
            ship = event.object
        return crew + len(harbours) + (found.status.aboard if found else 0)
"""
MISUSE = """
from fleet_client import Clientset
from fleet_client.fleet_v1 import Harbour, ShipSpec

clients = Clientset()
ships = clients.fleet_v1.ships("default")
a = ShipSpec(home=1)
b = ShipSpec(home="x", rig="raft")
c = clients.fleet_v1.boats("default")
d = clients.fleet_v1.harbours("default")
e = ships.create(Harbour())
f = ships.get(1)
"""
ERRORS = 6


@pytest.mark.parametrize(
    "checker",
    [
        pytest.param(["mypy", "--strict", "--python-version=3.11", "."], id="mypy", marks=pytest.mark.long),
        pytest.param(["pyright", "--pythonpath", sys.executable], id="pyright"),
    ],
)
def test_strict_type_checkers_accept_the_package_and_find_wrong_uses(
    package: Path, tmp_path: Path, checker: list[str]
) -> None:
    folder = tmp_path / "uses"
    folder.mkdir()
    (folder / "pyrightconfig.json").write_text(PYRIGHT)
    (folder / "src").symlink_to(package / "src")
    (folder / "use.py").write_text(USE)
    (folder / "misuse.py").write_text(MISUSE)
    command, own = [sys.executable, "-m", *checker], os.environ | {"MYPYPATH": "src"}
    done = subprocess.run(command, cwd=folder, env=own, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if re.search(r"\.py:\d+.*error", line)]
    assert all("misuse.py:" in each for each in found), done.stdout + done.stderr
    lines = {int(line.partition("misuse.py:")[2].partition(":")[0]) for line in found}
    first = MISUSE.splitlines().index("a = ShipSpec(home=1)") + 1
    assert lines == set(range(first, first + ERRORS)), found


def test_the_linter_of_a_fresh_project_accepts_the_package(package: Path) -> None:
    project = GOLDEN.parent / "projects/full/pyproject.toml"
    for command in (["check", "--no-cache", f"--config={project}"], ["format", "--check", f"--config={project}"]):
        arguments = [sys.executable, "-m", "ruff", *command, str(package)]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_existing_files_stay_and_unused_modules_are_removed(package: Path, tmp_path: Path) -> None:
    folder = tmp_path / "fleet-client"
    generate("--output", folder, "--kinds", "Harbour")
    assert "class Ship(" not in (folder / "src/fleet_client/fleet_v1.py").read_text()
    (folder / "NOTES").write_text("mine")
    generate("--output", folder, "--name", "harbours")
    assert sorted(path.name for path in folder.iterdir()) == ["NOTES", "README.md", "pyproject.toml", "src"]
    assert [path.name for path in (folder / "src").iterdir()] == ["harbours"]
    assert generate("--output", folder, "--name", "harbours", "--check") == "everything is up to date\n"


def test_crds_of_others_make_a_package_too(tmp_path: Path) -> None:
    generate(MODELS, "--output", tmp_path / "shop-client", folder=tmp_path)
    text = (tmp_path / "shop-client/README.md").read_text()
    assert "`clients.shop_v1." in text
    assert 'name = "shop-client"' in (tmp_path / "shop-client/pyproject.toml").read_text()


def test_mistakes_are_reported(tmp_path: Path) -> None:
    assert refused("--output", tmp_path, "--name", "x", "--kinds", "Shipp").endswith(
        "there is no kind Shipp; did you mean Ship?"
    )
    assert refused("--output", tmp_path, "--name", "1-x").endswith(
        '"1-x" is not a package name; use a name like "fleet-client"'
    )
    (tmp_path / "none.yaml").write_text("kind: Pod\n")
    found = f"no CustomResourceDefinition in {tmp_path} (found: 1 Pod). Expected YAML or JSON documents"
    assert found in refused(tmp_path, "--output", tmp_path / "x")


PROGRAM = """
import asyncio, sys
from fleet_client import Clientset, Informers
from fleet_client.fleet_v1 import Harbour, Ship, ShipSpec
from kubewright import ConfigError, NotFound, ObjectMeta
from kubewright.client import MergePatch

async def main(namespace: str) -> None:
    async with Clientset() as clients:
        ships = clients.fleet_v1.ships(namespace)
        made = await ships.create(Ship(metadata=ObjectMeta(name="argo"), spec=ShipSpec(home="iolcus")))
        assert made.metadata.namespace == namespace
        assert (await ships.patch("argo", MergePatch({"spec": {"crew": 49}}))).spec.crew == 49
        await ships.apply(Ship(metadata=ObjectMeta(name="swan"), spec=ShipSpec(home="delos")))
        read = await ships.get("argo")
        read.spec.crew = 50
        read = await ships.update(read)
        read.status.aboard = 50
        await ships.update_status(read)
        assert (await ships.get("argo")).status.aboard == 50
        assert [each.metadata.name for each in await ships.list()] == ["argo", "swan"]
        assert [each.spec.crew async for each in first(ships)] == [50, 1]
        try:
            await ships.create(Ship(metadata=ObjectMeta(name="x", namespace="other"), spec=ShipSpec(home="y")))
        except ConfigError as error:
            assert 'its namespace is "other", not' in str(error)
        await clients.fleet_v1.harbours().apply(Harbour(metadata=ObjectMeta(name=namespace)))
        informers = Informers(clients, namespace=namespace)
        lister = informers.fleet_v1.ships.lister
        async with informers:
            await informers.wait_synced(60)
            found = lister.get("argo", namespace)
            assert found is not None and found.spec.crew == 50
        await ships.delete("argo", propagation="Foreground")
        try:
            await ships.get("argo")
        except NotFound:
            pass
        await ships.delete_all()
        await clients.fleet_v1.harbours().delete(namespace)
    assert not [name for name in sys.modules if name.startswith(("fleet_operator", "kubewright.controllers"))]
    print("done")

async def first(ships):
    stream = ships.watch(timeout=60)
    for _ in range(2):
        yield (await anext(stream)).object
    await stream.aclose()

asyncio.run(main(sys.argv[1]))
"""


async def test_a_program_uses_the_generated_client_without_importing_the_operator(
    cluster: Cluster, namespace: str, package: Path, tmp_path: Path
) -> None:
    for path in sorted((FULL / "config/crd/bases").iterdir()):
        crd = codec.from_dict(CustomResourceDefinition, yaml.load(path.read_text()))
        await cluster.client.apply(crd)
    for kind, plural in (("Ship", "ships"), ("Harbour", "harbours")):
        await eventually(cluster.client.list, Unstructured.of(APIResource("fleet.example.com", "v1", kind, plural)))
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    kubeconfig = cluster.kubeconfig()
    own = environment(kubeconfig) | {"PYTHONPATH": str(package / "src")}
    command = [sys.executable, program, namespace]
    done = await asyncio.to_thread(
        subprocess.run, command, cwd=tmp_path, env=own, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "done\n"), done.stderr
    given = ("--from-cluster", "ships.fleet.example.com", "--output", tmp_path / "fleet-client")
    await asyncio.to_thread(generate, *given, folder=tmp_path, kubeconfig=kubeconfig)
    assert "class Ship(" in (tmp_path / "fleet-client/src/fleet_client/fleet_v1.py").read_text()
