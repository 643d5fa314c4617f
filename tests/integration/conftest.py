"""Fixtures of deployed operators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from integration.deployed import Deployed, Project
from kubewright.testing import Cluster


@pytest_asyncio.fixture
async def deployed(cluster: Cluster, tmp_path: Path) -> AsyncIterator[Deployed]:
    found = Deployed(Project(tmp_path), cluster)
    yield found
    await found.run("undeploy", "--yes", "--timeout=20")


@pytest.fixture
def processes(kubewright_target: str) -> None:
    if kubewright_target != "embedded":
        pytest.skip("on other control planes images are images")
