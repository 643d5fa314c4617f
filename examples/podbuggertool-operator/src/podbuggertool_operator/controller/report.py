"""The status of a tool, and Events about the tool and its Pods."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from kubewright import Context, set_condition
from kubewright.apis.core.v1 import Pod

from podbuggertool_operator.api.v1beta1.podbuggertool import LISTED, PendingPod, Podbuggertool, Reason
from podbuggertool_operator.controller.pods import can_have, container_name, has, why_not

SERIOUS: Final[Sequence[Reason]] = ("Refused", "NameTaken", "TimedOut", "NotReady", "Adding")
"""Reasons why a Pod does not have the tool, the most serious first."""
RECORDED: Final[Collection[Reason]] = ("Refused", "NameTaken", "TimedOut")
"""Reasons that are recorded as Events."""
NAMED: Final = 3
"""Maximum number of Pods that an Event names."""


@dataclass
class Report:
    """The Pods that should have a tool, by name, and their state."""

    pods: dict[str, Pod] = field(default_factory=dict[str, Pod])
    pending: dict[str, PendingPod] = field(default_factory=dict[str, PendingPod])
    added: list[str] = field(default_factory=list[str])

    @property
    def installed(self) -> list[str]:
        return sorted(self.pods.keys() - self.pending.keys())

    @property
    def listed(self) -> list[PendingPod]:
        """The pending Pods for the status, the most serious reasons first."""
        return sorted(self.pending.values(), key=lambda each: (SERIOUS.index(each.reason), each.name))[:LISTED]

    def update(self, pod: Pod, tool: Podbuggertool, now: datetime) -> None:
        """Replace the recorded state of `pod`."""
        name = pod.metadata.name
        self.forget(name)
        if can_have(pod, tool):
            self.pods[name] = pod
            if not has(pod, tool):
                self.pending[name] = why_not(pod, tool, now)

    def forget(self, name: str) -> None:
        """Remove a deleted Pod."""
        self.pods.pop(name, None)
        self.pending.pop(name, None)

    def is_next(self, name: str) -> bool:
        return name in self.pending and self.pending[name].reason == "Adding"

    def waiting(self, reason: Reason) -> list[str]:
        return [each.name for each in self.pending.values() if each.reason == reason]


def record_events(ctx: Context[Podbuggertool], report: Report) -> None:
    """Record Events about additions, and about problems that the status does not show yet."""
    tool = ctx.object
    if report.added:
        ctx.events.normal(tool, "Added", f"{container_name(tool.spec.image)} was added to {named(report.added)}")
    known = {(each.name, each.reason) for each in tool.status.pending}
    for each in report.listed:
        if each.reason in RECORDED and (each.name, each.reason) not in known:
            ctx.log.warning("Tool not added", pod=each.name, reason=each.reason, message=each.message)
            ctx.events.warning(tool, each.reason, f'Pod "{each.name}": {each.message}')
            ctx.events.warning(
                report.pods[each.name],
                each.reason,
                f'Podbuggertool "{tool.metadata.name}": {each.message}',
                related=tool,
            )


async def write_status(ctx: Context[Podbuggertool], report: Report) -> None:
    tool, status = ctx.object, ctx.object.status
    status.observed_generation = tool.metadata.generation or 0
    status.installed = bool(report.pods) and not report.pending
    status.container = container_name(tool.spec.image)
    status.installed_pods = len(report.installed)
    status.pending_pods = len(report.pending)
    status.pods = report.installed[:LISTED]
    status.pending = report.listed
    set_condition(
        status.conditions,
        "Installed",
        "True" if status.installed else "False",
        reason=reason_of(report),
        message=message_of(tool, report),
        observed_generation=tool.metadata.generation,
    )
    await ctx.update_status(status)


def reason_of(report: Report) -> str:
    if not report.pods:
        return "NoPods"
    return report.listed[0].reason if report.pending else "Installed"


def message_of(tool: Podbuggertool, report: Report) -> str:
    if not report.pods:
        return f"no Pod with {tool.spec.label} exists in this namespace"
    in_how_many = f"{len(report.installed)} of {len(report.pods)} Pods with {tool.spec.label} have it"
    if not report.pending:
        return in_how_many
    worst = report.listed[0]
    return f'{in_how_many}; Pod "{worst.name}": {worst.message}'


def named(pods: Sequence[str]) -> str:
    if len(pods) == 1:
        return f'Pod "{pods[0]}"'
    more = f" and {len(pods) - NAMED} more" if len(pods) > NAMED else ""
    return f"{len(pods)} Pods: {', '.join(sorted(pods)[:NAMED])}{more}"
