"""`kubewright status`: show what the operator manages, and what has not converged."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from kubewright_cli import console
from kubewright_cli.deployed import NO_CRDS, Target, namespace_option
from kubewright_cli.deployment.ownership import RENAME, require_own
from kubewright_cli.deployment.status import KindStatus, OperatorStatus, PodStatus, status_of


@click.command("status")
@console.output_option
@namespace_option
def command(output: str, namespace: str, kubeconfig: Path | None, context: str | None) -> None:
    """Show what the operator manages: the objects of each kind, which have not converged and why, and the manager's
    Pods.

    An object has converged if the operator watches its namespace, can decode it and has reconciled its current
    generation, its reconciles do not keep failing, and no condition of the object reports a problem. Exit status 1
    if something has not converged, if no Pod of the manager is ready and leads, or if the API server cannot call its
    webhooks.

    \b
    Examples:
      kubewright status
      kubewright status --output json
    """
    target = Target.of(kubeconfig, context, namespace=namespace)
    status = asyncio.run(_status(target))
    if output == "json":
        console.document({**msgspec.to_builtins(status), "converged": status.converged})
    else:
        _show(status)
    sys.exit(0 if status.converged else 1)


async def _status(target: Target) -> OperatorStatus:
    async with target.client() as client:
        await require_own(client, target.manifests, f"To see its state, {RENAME}, or choose --namespace")
        return await status_of(client, target.manifests)


def _show(status: OperatorStatus) -> None:
    if status.deployed:
        console.say(f"{console.strong(status.name)} in namespace {status.namespace}, image {status.image}")
        console.table(["POD", "READY", "RESTARTS", "LEADS", "WHY"], [_pod(each) for each in status.pods])
    else:
        console.say(f"{console.strong(status.name)} is {console.bad('not deployed')} in namespace {status.namespace}")
    if status.pods and status.needs_leader and not any(each.leads for each in status.pods):
        console.say(f"{console.bad('No Pod leads')}; see `kubewright doctor`")
    console.say("")
    if status.kinds:
        console.table(["KIND", "OBJECTS", "CONVERGED"], [_kind(each) for each in status.kinds])
    else:
        console.say(NO_CRDS)
    if status.other_kinds:
        console.say(f"Reconciles kinds of Kubernetes or other projects: {', '.join(status.other_kinds)}")
    for kind in status.kinds:
        if kind.terminating:
            console.say(f"CRD of {kind.kind}.{kind.group} {console.bad(kind.terminating)}; see `kubewright doctor`")
        if kind.installed and kind.absent:
            console.say(f"{kind.kind}.{kind.group} is {console.bad(_versions(kind))}; run `kubewright install`")
        if kind.unreadable:
            console.say(f"{kind.kind}.{kind.group} {console.bad('cannot be read')}: {kind.unreadable}")
    for problem in status.webhooks:
        console.say(f"{problem.subject} {console.bad(problem.problem)}; {problem.remedy}")
    wrong = [(kind, each) for kind in status.kinds for each in kind.unconverged]
    rows = [[kind.kind, each.namespace or "", each.name, console.bad(each.why)] for kind, each in wrong]
    rows += [[each.kind, each.namespace or "", each.name, console.bad(each.why)] for each in status.failing]
    if rows:
        console.say("")
        console.table(["KIND", "NAMESPACE", "NAME", "WHY"], rows)
    for kind, each in wrong:
        if each.event and each.cause != "failing":
            console.say(f"{kind.kind} {each.name}: last warning: {each.event}")


def _versions(kind: KindStatus) -> str:
    """Return for example `installed, in v1 alone, without v2`."""
    served = f"in {', '.join(kind.served)} alone" if kind.served else "in no version"
    return f"installed, {served}, without {', '.join(kind.absent)}"


def _pod(pod: PodStatus) -> list[str]:
    ready = console.good("yes") if pod.ready else console.bad("no")
    return [pod.name, ready, str(pod.restarts), "yes" if pod.leads else "no", pod.why]


def _kind(kind: KindStatus) -> list[str]:
    name = f"{kind.kind}.{kind.group}"
    if kind.unreadable:
        return [name, console.bad("unknown"), ""]
    if not kind.installed:
        return [name, console.bad("not installed"), ""]
    good = kind.total - len(kind.unconverged)
    return [name, str(kind.total), console.good(str(good)) if good == kind.total else console.bad(str(good))]
