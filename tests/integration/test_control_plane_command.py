"""`kubewright-controlplane`, the command of the distribution that users of other clients install."""

from __future__ import annotations

import signal
import subprocess
from importlib.metadata import version
from pathlib import Path

import pytest

from integration import forked
from integration.command import CONTROL_PLANE, cluster_of, environment, up
from kubewright.apis.apps.v1 import Deployment
from kubewright.models import codec
from kubewright.testing import eventually
from kubewright_controlplane.command import command

DEPLOYMENT = {
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}


def run(*arguments: str, folder: Path) -> tuple[int, str]:
    """Return the exit status and the output of a command that ends on its own."""
    done = forked.run(CONTROL_PLANE, *arguments, folder=folder, environment=environment(None), merged=True)
    return done.returncode, done.stdout


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_names_the_command_that_the_user_typed(tmp_path: Path, option: str) -> None:
    status, output = run(option, folder=tmp_path)
    assert status == 0
    assert "Usage: kubewright-controlplane [OPTIONS]" in output
    assert "kubewright-controlplane --bare" in output
    assert "kubewright up" not in output


def test_the_version_is_that_of_the_distribution(tmp_path: Path) -> None:
    done = subprocess.run([CONTROL_PLANE, "--version"], cwd=tmp_path, env=environment(None), capture_output=True)
    assert done.stdout.decode() == f"kubewright-controlplane {version('kubewright-controlplane')}\n"


def test_the_readme_lists_every_option() -> None:
    readme = (Path(__file__).parents[2] / "packages/kubewright-controlplane/README.md").read_text()
    for each in command.params:
        assert f"`{each.opts[0]}" in readme


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubeconfig", "/dev/null/kubeconfig"], "cannot write the kubeconfig to /dev/null"),
        (["--data", "/dev/null/data"], "/dev/null/data"),
        (["--host", "192.0.2.1"], "cannot listen on 192.0.2.1"),
        (["--images", "missing.yaml"], "missing.yaml"),
        (["--disable", "scheduler"], 'there is no controller "scheduler"'),
        (["--disable-admission-plugins", "Bogus"], 'there is no admission plugin "Bogus"'),
        (["--runtime-config", "batch/v2=yes"], 'runtime config: batch/v2 must be true or false, got "yes"'),
        (["--runtime-config", "batch/v2=true"], 'runtime config: "batch/v2" cannot be switched on or off here'),
    ],
)
def test_an_error_is_one_line(tmp_path: Path, arguments: list[str], message: str) -> None:
    status, output = run(*arguments, folder=tmp_path)
    assert status == 1
    assert output.startswith("Error: ")
    assert output.count("\n") == 1
    assert message in output
    assert not list(tmp_path.iterdir())


async def test_a_deployment_becomes_available_through_the_kubeconfig_file(tmp_path: Path) -> None:
    path = tmp_path / "elsewhere/config"
    with up(tmp_path, "--kubeconfig", path, command=(CONTROL_PLANE,), kubeconfig=path) as started:
        async with cluster_of(started) as cluster:
            await cluster.client.create(codec.from_dict(Deployment, DEPLOYMENT))

            async def available() -> None:
                deployment = await cluster.client.get(Deployment, "web", namespace="default")
                assert deployment.status.available_replicas == 2

            await eventually(available)
        assert started.end(signal.SIGTERM) == 0
    assert not path.parent.exists()
