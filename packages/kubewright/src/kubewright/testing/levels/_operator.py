"""Operators as the suite runs them: a Manager in this process, or any program as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

import msgspec

from kubewright.client import Config
from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, KubewrightError
from kubewright.machinery.json import JSONObject, copied, is_array
from kubewright.manager import Manager
from kubewright.models import PolicyRule
from kubewright.policies import LocalPolicies
from kubewright.testing._cluster import Cluster
from kubewright.testing._faults import Faults
from kubewright.webhooks import LocalWebhooks

_LOG_LINES: Final = 5
_STOP_WITHIN: Final = 30.0


@dataclass(frozen=True, slots=True)
class Process:
    """An operator in any language, which runs as a process on this machine.

    It finds the API server by `KUBECONFIG`. In the command and the environment, `{kubeconfig}` is the file's path,
    `{namespace}` the namespace of the measurement, and `{metrics_port}` a free port.
    """

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    folder: Path | None = None
    """The working directory; by default that of this process."""
    metrics: str = ""
    """The URL of the metrics, such as `http://127.0.0.1:{metrics_port}/metrics`; empty if there are none."""


Program: TypeAlias = "Manager | Process"
"""How an operator runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """What is measured: a program, the documents of its bundle, and objects of its kinds."""

    name: str
    program: Program
    crds: Sequence[JSONObject]
    """The CustomResourceDefinitions."""
    samples: Sequence[JSONObject]
    """Objects of the kinds, as users create them."""
    prerequisites: Sequence[JSONObject] = ()
    """Objects of other kinds that the samples need, such as a Secret. They are created first."""
    version: str = ""
    rules: Sequence[PolicyRule] = ()
    """The permissions of the operator. Default: those that the Manager declares, or that the bundle asks for."""
    documents: Sequence[JSONObject] = ()
    """The bundle: a ClusterServiceVersion, alert rules, dashboards in ConfigMaps."""
    bundle: Path | Mapping[str, str] | None = None
    """The bundle, whose validity is a claim of level I: its folder, or its files by path; None if there is none."""
    folder: Path | None = None
    """The folder of the project, for files that the declaration or the documents name."""
    digest: str = ""
    """A digest of the program; the report contains it."""
    upgrades: bool = False
    """Whether there is an earlier release."""

    @classmethod
    def from_bundle(cls, folder: Path, program: Program) -> Operator:
        """Return the operator of a bundle, in any language. Raises ConfigError if the bundle cannot be read."""
        documents = _documents(folder / "manifests")
        csv = _service_version(documents)
        if csv is None:
            raise ConfigError(f"{folder / 'manifests'}: there is no ClusterServiceVersion; name the folder of a bundle")
        return cls(
            name=csv["metadata"]["name"].partition(".v")[0],
            version=csv["spec"].get("version", ""),
            program=program,
            crds=[each for each in documents if each["kind"] == "CustomResourceDefinition"],
            samples=json.loads(csv["metadata"].get("annotations", {}).get("alm-examples", "[]")),
            rules=_rules_of(csv),
            documents=documents,
            bundle=folder,
            folder=folder,
            upgrades=bool(csv["spec"].get("replaces")),
        )

    @property
    def service_version(self) -> JSONObject | None:
        """The ClusterServiceVersion; None if there is none."""
        return _service_version(self.documents)

    @property
    def permissions(self) -> Sequence[PolicyRule]:
        """The permissions that the operator runs with."""
        if self.rules or not isinstance(self.program, Manager):
            return self.rules
        return self.program.rbac_rules()

    def installed_crds(self) -> list[JSONObject]:
        """Return the CRDs without conversion webhooks: those of this process are registered while it runs."""
        found = [copied(each) for each in self.crds]
        for each in found:
            each["spec"].pop("conversion", None)
        return found


def _documents(folder: Path) -> list[JSONObject]:
    found: list[JSONObject] = []
    for path in sorted((*folder.glob("*.yaml"), *folder.glob("*.yml"), *folder.glob("*.json"))):
        try:
            found += [each for each in yaml.load_all(path.read_text()) if each]
        except (OSError, KubewrightError) as error:
            raise ConfigError(f"{path}: {error}") from error
    return found


def _service_version(documents: Sequence[JSONObject]) -> JSONObject | None:
    return next((each for each in documents if each.get("kind") == "ClusterServiceVersion"), None)


def _rules_of(csv: JSONObject) -> list[PolicyRule]:
    spec = csv["spec"].get("install", {}).get("spec", {})
    stated = [*(spec.get("clusterPermissions") or []), *(spec.get("permissions") or [])]
    rules = [rule for each in stated for rule in each.get("rules", []) if is_array(rule.get("verbs"))]
    return [msgspec.convert(each, PolicyRule) for each in rules]


class Running(Protocol):
    """An operator that runs."""

    async def metrics(self) -> str | None:
        """Return the text of its metrics; None if it serves none. Raises OSError if they cannot be read."""
        ...

    async def stop(self) -> None:
        """Stop it gracefully."""
        ...

    async def kill(self) -> None:
        """End it at once, in the middle of whatever it does."""
        ...

    def failure(self) -> str:
        """Return why it has ended on its own; empty if it runs."""
        ...


async def start(program: Program, account: Config, cluster: Cluster, namespace: str) -> Running:
    """Start an operator with the credentials of `account`, and wait until it works."""
    if isinstance(program, Manager):
        return await _RunningManager.start(program, account, cluster.config)
    return await _RunningProcess.start(program, cluster.kubeconfig(account), namespace)


class _RunningManager:
    def __init__(self, manager: Manager, faults: Faults, task: asyncio.Task[None]) -> None:
        self._manager = manager
        self._faults = faults
        self._task = task

    @classmethod
    async def start(cls, program: Manager, account: Config, admin: Config) -> _RunningManager:
        faults = Faults(account)
        manager = program.replace(
            transport=faults,
            metrics_address="127.0.0.1:0",
            metrics_secure=None,
            leader_election=None,
        )
        if program.webhooks:
            local = LocalWebhooks(config=admin)
            manager = manager.replace(webhook_certificate=None, webhook_registration=local)
        if program.policies:
            manager = manager.replace(policy_registration=LocalPolicies(config=admin))
        task = asyncio.create_task(manager.run())
        ready = asyncio.create_task(manager.wait_ready())
        await asyncio.wait({task, ready}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)
            task.result()
        await ready
        return cls(manager, faults, task)

    async def metrics(self) -> str | None:
        return await _fetched(f"http://127.0.0.1:{self._manager.metrics_port}/metrics")

    async def stop(self) -> None:
        self._manager.stop()
        await asyncio.wait_for(self._task, _STOP_WITHIN)

    async def kill(self) -> None:
        if self._manager.webhooks:  # a dead process would leave conversions that nobody answers
            return await self.stop()
        self._faults.die()
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        return None

    def failure(self) -> str:
        if not self._task.done() or self._task.cancelled():
            return ""
        error = self._task.exception()
        return f"the operator ended: {error}" if error else "the operator ended"


class _RunningProcess:
    def __init__(self, process: asyncio.subprocess.Process, log: Path, metrics: str) -> None:
        self._process = process
        self._log = log
        self._metrics = metrics

    @classmethod
    async def start(cls, program: Process, kubeconfig: Path, namespace: str) -> _RunningProcess:
        values = {"kubeconfig": str(kubeconfig), "namespace": namespace, "metrics_port": str(_free_port())}
        command = [_filled(each, values) for each in program.command]
        environment = {key: _filled(value, values) for key, value in program.environment.items()}
        log = kubeconfig.with_suffix(".log")
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=program.folder,
                env={**os.environ, "KUBECONFIG": str(kubeconfig), **environment},
            )
        return cls(process, log, _filled(program.metrics, values))

    async def metrics(self) -> str | None:
        return await _fetched(self._metrics) if self._metrics else None

    async def stop(self) -> None:
        if self._process.returncode is None:
            self._process.terminate()
        try:
            await asyncio.wait_for(self._process.wait(), _STOP_WITHIN)
        except TimeoutError:
            await self.kill()

    async def kill(self) -> None:
        if self._process.returncode is None:
            self._process.kill()
        await self._process.wait()

    def failure(self) -> str:
        if self._process.returncode is None:
            return ""
        last = self._log.read_text(errors="replace").splitlines()[-_LOG_LINES:]
        return f"the operator exited with status {self._process.returncode}: {' | '.join(last)}"


def python_module(module: str, *arguments: str, folder: Path, metrics: str = "") -> Process:
    """Return the process of a Python program: `python -m module`, with the sources in `folder`/src."""
    source = os.pathsep.join(filter(None, (str(folder / "src"), os.environ.get("PYTHONPATH", ""))))
    command = (sys.executable, "-m", module, *arguments)
    return Process(command, environment={"PYTHONPATH": source}, folder=folder, metrics=metrics)


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


async def _fetched(url: str) -> str:
    def fetch() -> str:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return str(answer.read().decode())

    return await asyncio.to_thread(fetch)
