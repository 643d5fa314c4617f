"""The command line as a process: its results and its error messages."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from integration.command import COMMAND, NO_SERVERS, Up, environment, run, up
from kubewright import Client, Config, Manager, ObjectMeta
from kubewright.apis.apiextensions.v1 import CustomResourceDefinition
from kubewright.apis.core.v1 import ConfigMap
from kubewright.testing import Cluster, eventually, gone
from webserver_operator.api.v1.webserver import WebServer
from webserver_operator.controller.webserver import reconcile

EXAMPLE = Path(__file__).parents[2] / "examples/webserver-operator"
CRD = "webservers.my.domain"


def failure(*arguments: object, folder: Path = EXAMPLE, kubeconfig: Path | None = None) -> str:
    """Return the one line with the reason of a failure, without progress messages."""
    status, said = run(*arguments, folder=folder, kubeconfig=kubeconfig)
    said = "".join(line for line in said.splitlines(keepends=True) if not line.endswith(" ...\n"))
    assert status == 1, said
    assert said.startswith("Error: "), said
    assert said.count("\n") == 1, said
    return said.removeprefix("Error: ").rstrip()


async def run_aside(*arguments: object, kubeconfig: Path | None = None) -> tuple[int, str]:
    """Run a command while this event loop continues."""
    return await asyncio.to_thread(run, *arguments, folder=EXAMPLE, kubeconfig=kubeconfig)


async def failure_aside(*arguments: object, kubeconfig: Path) -> str:
    return await asyncio.to_thread(failure, *arguments, kubeconfig=kubeconfig)


# ---- kubewright up


async def write_down(started: Up, *names: str) -> None:
    client = Client(Config.from_kubeconfig(started.kubeconfig))
    for name in names:
        await client.create(ConfigMap(metadata=ObjectMeta(name=name, namespace="default"), data={"k": "v"}))
    await client.close()


async def written_down(started: Up) -> set[str]:
    client = Client(Config.from_kubeconfig(started.kubeconfig))
    found = await client.list(ConfigMap, namespace="default")
    await client.close()
    return {each.metadata.name for each in found if each.data.get("k") == "v"}


def test_up_prints_how_to_connect_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        assert f"export KUBECONFIG={started.kubeconfig}" in started.said
        assert asyncio.run(written_down(started)) == set()
        assert started.end(signal.SIGTERM) == 0
        assert started.said.endswith("Stopped.\n")
    assert list(tmp_path.iterdir()) == []


async def test_up_stops_while_a_client_watches(tmp_path: Path) -> None:
    with up(tmp_path) as started:
        client = Client(Config.from_kubeconfig(started.kubeconfig))
        watch = client.watch(ConfigMap)
        await anext(watch)
        status = await asyncio.to_thread(started.end, signal.SIGINT)
        assert status == 0
        await watch.aclose()
        await client.close()


async def test_objects_in_a_data_folder_survive_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--data", data) as first:
        await write_down(first, "kept")
        assert first.end(signal.SIGTERM) == 0
    with up(tmp_path, "--data", data) as second:
        assert await written_down(second) == {"kept"}


async def test_a_kill_loses_only_the_last_writes(tmp_path: Path) -> None:
    names = [f"write-{number:03}" for number in range(300)]
    data = tmp_path / "data"

    async def reached_the_disk(name: str) -> None:
        assert name.encode() in (data / "log.db-wal").read_bytes()

    with up(tmp_path, "--data", data) as killed:
        await write_down(killed, *names[:100])
        await eventually(reached_the_disk, names[99])
        await write_down(killed, *names[100:])
        killed.end(signal.SIGKILL)
    with up(tmp_path, "--data", data) as again:
        kept = await written_down(again)
        assert len(kept) >= 100
        assert kept == set(names[: len(kept)])


def test_a_second_control_plane_in_one_folder_names_the_first(tmp_path: Path) -> None:
    with up(tmp_path) as first:
        said = failure("up", folder=tmp_path)
        assert said.startswith(f"another control plane (process {first.pid}) is up with the kubeconfig ")
        assert "--kubeconfig" in said


def test_a_second_control_plane_on_one_data_folder_is_rejected(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with up(tmp_path, "--data", data):
        said = failure("up", "--data", data, "--kubeconfig", tmp_path / "another", folder=tmp_path)
        assert str(data) in said
        assert "in use" in said


def test_an_occupied_port_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = failure("up", "--port", port, folder=tmp_path)
    way_out = "stop it, or choose another port (port 0 is any free one)"
    assert said == f"127.0.0.1:{port} is in use by another process; {way_out}"
    assert list(tmp_path.iterdir()) == []


def test_a_data_folder_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in failure("up", "--data", tmp_path / "file" / "data", folder=tmp_path)


# ---- projects


def project(folder: Path, manager: str | None, program: str = "") -> Path:
    setting = "" if manager is None else f'[tool.kubewright]\nmanager = "{manager}"\n'
    (folder / "pyproject.toml").write_text(f'[project]\nname = "thing"\nversion = "1"\n{setting}')
    (folder / "thing.py").write_text(program)
    return folder


@pytest.mark.parametrize("command", ["run", "install", "uninstall", "generate"])
def test_a_folder_without_a_project_is_an_error(tmp_path: Path, command: str) -> None:
    said = failure(command, folder=tmp_path)
    way_out = "run this in the folder of an operator's project; `kubewright init` creates one"
    assert said == f"no pyproject.toml in {tmp_path} or above it; {way_out}"


@pytest.mark.parametrize(
    ("manager", "program", "said"),
    [
        pytest.param(None, "", '[tool.kubewright] names no manager; add manager = "package.module:variable"', id="no"),
        pytest.param("thing.main:manager", "", 'there is no module "thing.main"', id="no module"),
        pytest.param("nothing:manager", "", 'there is no module "nothing"', id="no package"),
        pytest.param("thing:manager", "", '"thing:manager" (tool.kubewright.manager)', id="no variable"),
        pytest.param("thing:manager", "manager = 1", "is not a Manager but int", id="another type"),
        pytest.param(
            "thing:manager",
            "\nimport nowhere",
            "thing.py, line 2: ModuleNotFoundError: No module named 'nowhere' (on import of \"thing\")",
            id="import fails",
        ),
        pytest.param("thing:manager", "manager =", "thing.py, line 1: SyntaxError: invalid syntax", id="no Python"),
        pytest.param("thing:manager", "manager = 1 / 0", "thing.py, line 1: ZeroDivisionError", id="raises"),
        pytest.param(
            "thing:manager",
            "from kubewright import Model\n\nclass Size(Model):\n    height: str | int",
            "thing.py, line 3: ModelError: Size.height: ",
            id="no field of a CRD",
        ),
    ],
)
def test_a_project_without_its_manager_is_an_error(
    tmp_path: Path, manager: str | None, program: str, said: str
) -> None:
    assert said in failure("generate", folder=project(tmp_path, manager, program))


KINDS = """
from kubewright import CustomResource, Model


class ThingSpec(Model):
    size: int


class Thing(CustomResource, group="thing.test", version="v1"):
    spec: ThingSpec
"""


def project_of_kinds(folder: Path) -> Path:
    """Create a project without a Manager."""
    (folder / "pyproject.toml").write_text('[project]\nname = "thing"\n[tool.kubewright]\nkinds = "thing"\n')
    (folder / "thing.py").write_text(KINDS)
    return folder


def test_crds_and_samples_are_generated_for_a_project_without_a_manager(tmp_path: Path) -> None:
    folder = project_of_kinds(tmp_path)
    own = folder / "config/rbac/role.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("kind: ClusterRole\n")
    assert run("generate", folder=folder)[0] == 0
    written = sorted(str(path.relative_to(folder)) for path in folder.glob("config/**/*.yaml"))
    assert written == [
        "config/crd/bases/thing.test_things.yaml",
        "config/crd/kustomization.yaml",
        "config/rbac/role.yaml",
        "config/samples/kustomization.yaml",
        "config/samples/thing_v1_thing.yaml",
    ]
    assert own.read_text() == "kind: ClusterRole\n"
    assert run("generate", "--check", folder=folder) == (0, "everything is up to date\n")


@pytest.mark.parametrize(
    "command",
    [
        ["run"],
        ["deploy"],
        ["undeploy"],
        ["status"],
        ["generate", "installer"],
        ["generate", "chart"],
        ["generate", "bundle"],
        ["image", "build"],
    ],
    ids=" ".join,
)
def test_commands_that_need_a_manager_fail_without_one(tmp_path: Path, command: list[str]) -> None:
    said = failure(*command, folder=project_of_kinds(tmp_path))
    assert "[tool.kubewright] names kinds and no manager" in said


def test_a_missing_module_of_kinds_is_named(tmp_path: Path) -> None:
    folder = project_of_kinds(tmp_path)
    (folder / "thing.py").unlink()
    assert 'there is no module "thing" (tool.kubewright.kinds)' in failure("generate", folder=folder)


def test_generate_writes_and_checks(tmp_path: Path) -> None:
    folder = project(tmp_path, "thing:manager", PROGRAM)
    said = failure("generate", "--check", folder=folder)
    assert said.startswith("not up to date: config/crd/bases/thing.test_things.yaml, config/crd/kustomization.yaml, ")
    assert said.endswith("run this without --check")
    assert run("generate", folder=folder)[0] == 0
    assert run("generate", "--check", folder=folder) == (0, "everything is up to date\n")
    role = (folder / "config/rbac/role.yaml").read_text()
    assert "name: manager-role" in role
    assert "- things/status" in role
    (folder / "config/rbac/role.yaml").write_text(role.replace("things/status", "things/other"))
    assert failure("generate", "--check", folder=folder).startswith("not up to date: config/rbac/role.yaml;")
    status, shown = run("generate", "--check", "-v", folder=folder)
    assert status == 1
    assert "-  - things/other\n+  - things/status\n" in shown
    status, shown = run("generate", "--check", "--output", "json", folder=folder)
    listed = [{"path": "config/rbac/role.yaml", "action": "write"}]
    document, _, complaint = shown.partition("Error: ")
    expected = {"upToDate": False, "changes": listed, "warnings": [], "breakingChanges": []}
    assert (status, json.loads(document)) == (1, expected)
    assert complaint == "not up to date: config/rbac/role.yaml; run this without --check\n"


def test_a_program_that_runs_on_import_is_explained(tmp_path: Path) -> None:
    folder = project(tmp_path, "thing:manager", f"{PROGRAM}\nmanager.main()\n")
    status, said = run("generate", folder=folder)
    assert status == 1
    assert said.endswith('on import of "thing"; call manager.main() only under `if __name__ == "__main__":`\n')
    assert "Traceback" not in said


def test_a_flag_that_the_program_does_not_have_is_named(tmp_path: Path) -> None:
    parser = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--resync', type=int)\n"
    program = parser + PROGRAM.replace("Manager([reconcile])", 'Manager([reconcile], name="things", parser=parser)')
    folder = project(tmp_path, "thing:manager", program)
    pyproject = folder / "pyproject.toml"
    settings = pyproject.read_text()
    pyproject.write_text(settings + '\nargs = ["--resnc=7"]\n')
    for command in (["generate"], ["generate", "installer"], ["generate", "chart"]):
        said = failure(*command, folder=folder)
        assert said.endswith("pyproject.toml: tool.kubewright.args: things has no flag --resnc; did you mean --resync?")
    pyproject.write_text(settings + '\nargs = ["--resync=often"]\n')
    assert "argument --resync: invalid int value: 'often'" in failure("generate", folder=folder)
    for args in ('"--resync=7"', '"--resync", "7"', '"--resync=$(RESYNC)"'):
        pyproject.write_text(f"{settings}\nargs = [{args}]\n")
        run("generate", folder=folder)
        assert run("generate", "--check", folder=folder)[0] == 0
    (folder / "thing.py").write_text(f"{PROGRAM}\n{parser}\nif __name__ == '__main__':\n    manager.main(parser)\n")
    pyproject.write_text(settings + '\nargs = ["--other=7"]\n')
    assert run("generate", folder=folder)[0] == 0


def test_an_option_before_a_generate_command_is_not_an_option_of_the_command(tmp_path: Path) -> None:
    folder = project(tmp_path, "thing:manager", PROGRAM)
    status, said = run("generate", "--check", "installer", folder=folder)
    assert status == 2
    assert "put options after the command: kubewright generate installer --check" in said
    assert not (folder / "dist").exists()


def test_generate_does_not_overwrite_other_files(tmp_path: Path) -> None:
    folder = project(tmp_path, "thing:manager", PROGRAM)
    mine = folder / "config/rbac/role.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("rules: []\n")
    assert failure("generate", folder=folder) == (
        "config/rbac/role.yaml: not generated by `kubewright generate`, so it is not overwritten; nothing was "
        "written. Move or remove the file, and run the command again"
    )
    assert [path.name for path in (folder / "config").rglob("*.yaml")] == ["role.yaml"]


def test_generate_removes_stale_files_and_keeps_edited_samples(tmp_path: Path) -> None:
    folder = project(tmp_path, "thing:manager", PROGRAM)
    assert run("generate", folder=folder)[0] == 0
    sample = folder / "config/samples/thing_v1_thing.yaml"
    sample.write_text(sample.read_text().replace("thing-sample", "mine"))
    sample.write_text(sample.read_text() + "spec:\n  size: 1\n")
    status, shown = run("generate", "--check", folder=folder)
    assert status == 1
    assert "no longer fits Thing: spec: unknown field" in shown
    assert shown.endswith("Error: samples that break the rules of their types: config/samples/thing_v1_thing.yaml\n")
    (folder / "config/rbac/extra_role.yaml").write_text("kind: Role\n")
    shutil.copytree(folder / "config/default", folder / "config/staging")
    (folder / "thing.py").write_text(PROGRAM.replace("Thing", "Other"))
    status, shown = run("generate", folder=folder)
    assert status == 0
    assert "removed config/crd/bases/thing.test_things.yaml\n" in shown
    assert "removed config/rbac/thing_viewer_role.yaml\n" in shown
    assert "name: mine" in sample.read_text()
    assert (folder / "config/rbac/extra_role.yaml").exists()
    assert (folder / "config/staging/kustomization.yaml").exists()
    resources = (folder / "config/samples/kustomization.yaml").read_text()
    assert "- thing_v1_other.yaml\n- thing_v1_thing.yaml\n" in resources


PROGRAM = """
from kubewright import Context, CustomResource, Manager, Model, controller, field

class Status(Model):
    ready: bool = False

class Thing(CustomResource, group="thing.test", version="v1"):
    status: Status = field(default_factory=Status)

@controller(Thing)
async def reconcile(ctx: Context[Thing]) -> None: ...

manager = Manager([reconcile])
"""


# ---- clusters


async def test_a_wrong_kubeconfig_is_named(cluster: Cluster, tmp_path: Path) -> None:
    nowhere = tmp_path / "nowhere"
    assert (await failure_aside("install", kubeconfig=nowhere)).startswith(f"kubeconfig {nowhere}: no such file")
    right = cluster.kubeconfig()
    said = await failure_aside("install", "--context", "other", kubeconfig=right)
    assert '"other"' in said
    assert str(right) in said
    broken = tmp_path / "broken"
    await asyncio.to_thread(broken.write_text, "{")
    assert str(broken) in await failure_aside("install", kubeconfig=broken)


async def test_untrusted_and_unreachable_servers_are_named(
    cluster: Cluster, another_ca: bytes, refusing_address: str
) -> None:
    distrusted = cluster.kubeconfig(replace(cluster.config, ca=another_ca))
    assert "certificate is not trusted" in await failure_aside("install", kubeconfig=distrusted)
    unreachable = cluster.kubeconfig(replace(cluster.config, server=f"https://{refusing_address}"))
    assert await failure_aside("install", kubeconfig=unreachable) == (
        f"cannot connect to {refusing_address}: Connection refused; is the API server running, and does the kubeconfig "
        "have its address and certificate authority?"
    )
    stranger = cluster.kubeconfig(replace(cluster.config, token="wrong", client_cert=None, client_key=None))
    assert await failure_aside("install", kubeconfig=stranger) == (
        "the API server rejects our credentials (Unauthorized): check the user of the kubeconfig's context"
    )


@pytest.mark.parametrize(
    ("command", "refused"),
    [
        ("install", 'cannot get resource "customresourcedefinitions" in API group "apiextensions.k8s.io"'),
        ("uninstall", 'cannot get resource "customresourcedefinitions" in API group "apiextensions.k8s.io"'),
    ],
)
async def test_missing_permissions_are_named(cluster: Cluster, namespace: str, command: str, refused: str) -> None:
    await cluster.install(WebServer)
    async with cluster.service_account([], namespace=namespace) as account:
        said = await failure_aside(command, kubeconfig=cluster.kubeconfig(account))
    assert f'is forbidden: User "system:serviceaccount:{namespace}:' in said
    assert refused in said
    assert said.endswith("; use an account with this permission: --kubeconfig, --context")


@pytest.fixture
def another_ca() -> bytes:
    from kubewright_controlplane.apiserver.pki import CertificateAuthority

    return CertificateAuthority.create().certificate


async def test_install_run_and_uninstall(cluster: Cluster, namespace: str) -> None:
    kubeconfig = cluster.kubeconfig()
    await run_aside("uninstall", kubeconfig=kubeconfig)
    await gone(cluster.client.get, CustomResourceDefinition, CRD)
    status, said = await run_aside("run", *NO_SERVERS, kubeconfig=kubeconfig)
    assert status == 1
    assert f"the API server does not serve {CRD}/v1: install the CustomResourceDefinition (kubewright install" in said
    for outcome in ("created", "unchanged"):
        status, said = await run_aside("install", kubeconfig=kubeconfig)
        assert (status, said) == (0, f"customresourcedefinition.apiextensions.k8s.io/{CRD} {outcome}\n")
    assert len(await cluster.client.list(WebServer, namespace=namespace)) == 0
    assert await run_aside("uninstall", kubeconfig=kubeconfig) == (
        0,
        f"customresourcedefinition.apiextensions.k8s.io/{CRD} deleted\n",
    )
    await gone(cluster.client.get, CustomResourceDefinition, CRD)
    assert (await run_aside("uninstall", kubeconfig=kubeconfig))[1].endswith("not found\n")


async def test_a_missing_rule_is_named(cluster: Cluster, namespace: str) -> None:
    await cluster.install(WebServer)
    rules = [rule for rule in Manager([reconcile]).rbac_rules() if rule.resources != ["services"]]
    async with cluster.service_account(rules, namespace=namespace) as account:
        status, said = await run_aside("run", *NO_SERVERS, kubeconfig=cluster.kubeconfig(account))
    assert status == 1
    *_, last = said.splitlines()
    assert "RBAC: not allowed to get services, list services, watch services, create services" in last
    assert "deployments" not in last
    assert "kubewright generate" in last


async def test_an_operator_stops_on_request(cluster: Cluster, namespace: str) -> None:
    await cluster.install(WebServer)
    process = await asyncio.create_subprocess_exec(
        COMMAND, "run", *NO_SERVERS, "--log-format=console",
        cwd=EXAMPLE, env=environment(cluster.kubeconfig()), stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    while b"Controllers started" not in (line := await process.stderr.readline()):
        assert line, "it ended before it worked"
    process.terminate()
    assert b"Manager stopped" in await process.stderr.read()
    assert await process.wait() == 0
