"""The program publish.py, as a user runs it: with the generated client and without the operator."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from kubewright import Manager
from kubewright.testing import Cluster

from mywebs import OTHER_PAGE, PAGE, PORT, MyWebs

PROJECT = Path(__file__).parents[1]


class Publisher:
    """A user who publishes pages in one namespace."""

    def __init__(self, cluster: Cluster, namespace: str, folder: Path) -> None:
        self._environment = os.environ | {
            "PYTHONUNBUFFERED": "1",
            "KUBECONFIG": str(cluster.kubeconfig()),
            "PYTHONPATH": str(PROJECT / "client/src"),
        }
        self._namespace = namespace
        self._file = folder / "page.html"

    async def begin(self, page: str, *flags: str, port: int = PORT) -> asyncio.subprocess.Process:
        """Start the program."""
        self._file.write_text(page)
        return await asyncio.create_subprocess_exec(
            sys.executable,
            str(PROJECT / "publish.py"),
            str(self._file),
            f"--namespace={self._namespace}",
            "--name=web",
            f"--node-port={port}",
            *flags,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def publish(self, page: str, *flags: str, port: int = PORT) -> tuple[int, str, str]:
        """Return the exit status and the output of the program."""
        process = await self.begin(page, *flags, port=port)
        said, complaint = await process.communicate()
        assert process.returncode is not None
        return process.returncode, said.decode(), complaint.decode()


@pytest.fixture
def publisher(cluster: Cluster, webs: MyWebs, tmp_path: Path) -> Publisher:
    return Publisher(cluster, webs.namespace, tmp_path)


async def test_a_page_is_published_and_updated(webs: MyWebs, operator: Manager, publisher: Publisher) -> None:
    status, said, complaint = await publisher.publish(PAGE)
    assert status == 0, complaint
    assert said.startswith("web created\n")
    assert f"web: the page is served on port {PORT} of every node\n" in said
    await webs.is_complete()

    status, said, complaint = await publisher.publish(OTHER_PAGE, port=PORT + 1)
    assert status == 0, complaint
    assert said.startswith("web updated\n")
    assert said.endswith(f"web                  port {PORT + 1}  nginx:1.23.1         completed\n")
    await webs.is_complete(page=OTHER_PAGE, port=PORT + 1)


async def test_all_pages_are_listed(webs: MyWebs, operator: Manager, publisher: Publisher) -> None:
    await webs.create("other", port=PORT + 1)
    await webs.completes("other", port=PORT + 1)
    _, said, _ = await publisher.publish(PAGE)
    assert [line.split()[0] for line in said.splitlines()[-2:]] == ["other", "web"]


async def test_progress_of_a_page_is_reported(webs: MyWebs, operator: Manager, publisher: Publisher) -> None:
    await webs.create("other")
    await webs.completes("other")
    process = await publisher.begin(PAGE)
    assert process.stdout is not None
    said = ""
    while f'web: node port {PORT} is taken by Service "{webs.namespace}/other"' not in said:
        assert not process.stdout.at_eof(), said
        said = (await process.stdout.readline()).decode()
    await webs.delete("other")
    output, _ = await process.communicate()
    assert process.returncode == 0
    assert f"web: the page is served on port {PORT} of every node\n" in output.decode()


async def test_a_page_that_is_not_served_in_time_is_a_failure(publisher: Publisher) -> None:
    status, _, _ = await publisher.publish(PAGE, "--timeout=3")
    assert status == 1


async def test_a_rejection_is_reported_in_one_line(webs: MyWebs, publisher: Publisher) -> None:
    status, _, complaint = await publisher.publish(PAGE, port=80)
    assert status == 1
    assert "spec.nodePortNumber in body should be greater than or equal to 30000" in complaint
    assert complaint.count("\n") == 1


def test_the_program_does_not_import_the_operator() -> None:
    program = "import sys, publish; sys.exit(any(name.startswith('myweb_operator') for name in sys.modules))"
    environment = os.environ | {"PYTHONPATH": f"{PROJECT}:{PROJECT / 'client/src'}"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, check=False)
    assert done.returncode == 0
