"""The demo of an operator, as `make demo` runs it for an example.

It starts a control plane (embedded or real), installs the CRDs, and runs the operator as a process, with a
ServiceAccount that has exactly the permissions that its controllers declare. Then it runs the steps, and prints what
happens.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

from kubewright._runtime.signals import on_stop_signal
from kubewright.machinery.errors import KubewrightError
from kubewright.models import CustomResource, PolicyRule
from kubewright.testing._cluster import Cluster, connected
from kubewright_controlplane.environment import Environment
from kubewright_controlplane.kubelet.images import Image
from kubewright_controlplane.real import RealControlPlane
from kubewright_controlplane.walkthrough import Summary, Walkthrough

Steps: TypeAlias = Callable[[Cluster, Walkthrough], Awaitable[None]]
"""The steps of a demo. They use the cluster, and print to the walk-through."""

_MANAGER_FLAGS: Final = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-format=console")


class Operator(Protocol):
    """What a demo needs to know about the program: a Manager, or a replacement for a program without one."""

    @property
    def name(self) -> str:
        """The name of the program."""
        ...

    def rbac_rules(self) -> list[PolicyRule]:
        """Return the permissions of the program. It runs with these and no others."""
        ...


@dataclass(frozen=True, kw_only=True)
class Demo:
    """A demo. `main` runs it as a program: status 0 if every state was reached, else 1 and one line."""

    manager: Operator
    module: str
    """The module of the operator's program, for `python -m`."""
    flags: Sequence[str] = _MANAGER_FLAGS
    """The arguments of the program."""
    kinds: Sequence[type[CustomResource]]
    """The kinds whose CRDs are installed."""
    shown: Mapping[type[Any], Summary]
    """The kinds whose changes are printed, and how."""
    steps: Steps
    sample: Path
    """The file to apply for a user who continues by hand."""
    namespace: str = "default"
    images: Mapping[str, Image] | None = None
    """Images that run as processes on this machine: `STAND_INS`, or images with commands of your own. None: all are
    simulated.
    """

    def main(self) -> None:
        """Run the demo from the command line. With `--keep`, the control plane and the operator stay up."""
        parser = argparse.ArgumentParser(description=f"The walk-through of {self.manager.name}.")
        parser.add_argument("--keep", action="store_true", help="leave control plane and operator up afterwards")
        parser.add_argument(
            "--target",
            choices=("embedded", "real"),
            default="embedded",
            help="the control plane: embedded, or kube-apiserver, etcd and their controllers (`make controlplane`)",
        )
        given = parser.parse_args()
        logging.getLogger("kubewright").setLevel(logging.ERROR)  # the control plane's log; the operator has its own
        try:
            asyncio.run(self._run(real=given.target == "real", keep=given.keep))
        except (KeyboardInterrupt, asyncio.CancelledError):
            _say("\nStopped.")
        except KubewrightError as error:
            sys.exit(f"The demo failed: {error}")

    async def _run(self, *, real: bool, keep: bool) -> None:
        _cancel_on_signals()
        began = time.monotonic()
        async with _real() if real else Environment() as cluster:
            _say(f"The control plane is ready after {time.monotonic() - began:.2f} s, at {cluster.config.server}")
            await cluster.install(*self.kinds)
            served = ", ".join(f"{kind.__api__.plural}.{kind.__api__.group}" for kind in self.kinds)
            _say(f"Its API server serves {served}")
            await self._walk(cluster, keep, began)

    async def _walk(self, cluster: Cluster, keep: bool, began: float) -> None:
        async with (
            cluster.images(self.images) if self.images else nullcontext(),
            cluster.service_account(self.manager.rbac_rules(), namespace=self.namespace) as account,
            Walkthrough(cluster, self.namespace, shown=self.shown) as walk,
            walk.operator(self._command(), {"KUBECONFIG": str(cluster.kubeconfig(account))}) as pid,
        ):
            walk.say(f"The operator runs as process {pid}, with the permissions of its own ServiceAccount")
            await self.steps(cluster, walk)
            walk.say(f"\nAll states were reached, in {time.monotonic() - began:.1f} s.")
            if keep:
                await self._stay_up(cluster, walk)

    def _command(self) -> list[str]:
        return [sys.executable, "-m", self.module, *self.flags]

    async def _stay_up(self, cluster: Cluster, walk: Walkthrough) -> None:
        walk.say("\nThe control plane and the operator stay up until Ctrl-C. In another terminal:\n")
        walk.say(f"  export KUBECONFIG={cluster.kubeconfig()}")
        walk.say(f"  kubectl apply -f {self.sample}\n")
        await asyncio.Event().wait()


@asynccontextmanager
async def _real() -> AsyncGenerator[Cluster]:
    """Return a real control plane. Raises ConfigError if it is not installed on this machine."""
    async with RealControlPlane() as real, connected(real.config) as cluster:
        yield cluster


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _cancel_on_signals() -> None:
    """Exit as after Ctrl-C, with cleanup."""
    task = asyncio.current_task()
    if task is not None:
        on_stop_signal(task.cancel)
