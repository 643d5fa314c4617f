"""Node ports of `kubewright up`: two control planes on one machine, and privileged ports."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from integration.command import COMMAND, cluster_of, run, up
from integration.web import Web, page, shows
from kubewright.testing import eventually

pytestmark = pytest.mark.xdist_group("node port 31311")


async def test_a_second_control_plane_reports_the_port_that_it_does_not_get(tmp_path: Path) -> None:
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
    with up(folders[0], "--stand-ins") as first, up(folders[1], "--stand-ins") as second:
        async with cluster_of(first) as its_own, cluster_of(second) as the_others:
            one, other = Web(its_own, "default"), Web(the_others, "default")
            port = {"port": 80, "nodePort": one.port}
            await one.deploy(image="nginx:1")
            await one.expose(port)
            await eventually(shows, "nginx:1", one.port)
            await other.deploy(image="nginx:2")
            await other.expose(port)
            await other.event(f"Node port {one.port} can't be opened at 127.0.0.1: address already in use")
            first.end(signal.SIGTERM)
            await eventually(shows, "nginx:2", one.port)


def bereft() -> list[str]:
    """Return a command that runs a program without permission to open port 80. Skips if there is none."""
    if os.geteuid() != 0:
        by: list[str] = []
    elif shutil.which("setpriv"):
        by = ["setpriv", "--bounding-set=-net_bind_service", "--inh-caps=-net_bind_service"]
    else:
        pytest.skip("the tests run as root and setpriv was not found")
    trial = "import socket; socket.socket().bind(('127.0.0.1', 80))"
    tried = subprocess.run([*by, sys.executable, "-c", trial], capture_output=True, text=True, check=False)
    if "PermissionError" not in tried.stderr:
        pytest.skip("every user may open port 80 on this machine")
    return by


async def open_to_all(web: Web, port: int) -> None:
    for pod in await web.pods():
        assert pod.status.pod_ip
        try:
            socket.create_connection((pod.status.pod_ip, port)).close()
        except OSError as error:
            raise AssertionError(str(error)) from error


async def test_a_privileged_port_is_replaced_by_another_one(tmp_path: Path) -> None:
    with up(tmp_path, "--stand-ins", command=(*bereft(), COMMAND, "up")) as started:
        async with cluster_of(started) as cluster:
            web = Web(cluster, "default")
            await web.deploy(replicas=2)
            await web.expose()
            await eventually(page, web.port)
            await web.event("This user may not open port 80: container web has to open port 10080 instead")
            await web.event("port 80/TCP can't be opened: permission denied. Choose a port from 1024 on")
            await eventually(open_to_all, web, 10080)


SITE = """
images:
  registry.test/site:*:
    command: [PYTHON, -m, http.server, --bind=$(KUBEWRIGHT_BIND_HOST), --directory=., $(KUBEWRIGHT_PORT_80)]
    ports: [80]
"""


async def test_images_in_a_file_run_with_its_commands(tmp_path: Path) -> None:
    file = tmp_path / "images.yaml"
    file.write_text(SITE.replace("PYTHON", sys.executable))
    with up(tmp_path, "--images", file) as started:
        async with cluster_of(started) as cluster:
            web = Web(cluster, "default")
            await web.deploy(image="registry.test/site:v1")
            await web.expose()
            await eventually(shows, "Directory listing for /", web.port)


@pytest.mark.parametrize(
    ("text", "why"),
    [("images: {a: {comand: [true]}}", "comand"), ("- a", "object"), (": :", ""), (None, "No such file")],
)
def test_a_file_of_images_that_cannot_be_read_is_named(tmp_path: Path, text: str | None, why: str) -> None:
    file = tmp_path / "images.yaml"
    if text is not None:
        file.write_text(text)
    status, said = run("up", f"--images={file}", folder=tmp_path)
    assert status == 1
    assert str(file) in said
    assert why in said
    assert "Traceback" not in said
