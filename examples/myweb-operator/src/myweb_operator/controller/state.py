"""The state of a MyWeb: reason and message for its status and for an Event."""

from dataclasses import dataclass

from kubewright.apis.apps.v1 import Deployment, DeploymentCondition

from myweb_operator.api.v1.myweb import MyWeb


@dataclass(frozen=True)
class State:
    """The state of a MyWeb."""

    reason: str
    message: str
    completed: bool = False
    needs_help: bool = False
    """Whether a user has to act."""


class Blocked(Exception):
    """The children cannot match the spec now."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.state = State(reason, message, needs_help=True)


def state_of(web: MyWeb, deployment: Deployment) -> State:
    """Return the state of a MyWeb whose children match the spec, from the rollout of its Deployment.

    As for `kubectl rollout status`, a rollout is complete when all Pods are new and available, and no old Pod is left.
    """
    status, wanted = deployment.status, deployment.spec.replicas or 0
    if (status.observed_generation or 0) < (deployment.metadata.generation or 0):
        return State("RollingOut", "the Deployment changed; its rollout has not started")
    updated, available = status.updated_replicas or 0, status.available_replicas or 0
    old = (status.replicas or 0) - updated
    if (updated, available, old) == (wanted, wanted, 0):
        return State("Completed", f"the page is served on port {web.spec.node_port_number} of every node", True)
    message = f"{updated} new and {old} old Pods, {available} of them serve"
    failure = next((each for each in status.conditions if is_failure(each)), None)
    if failure is None:
        return State("RollingOut", message)
    return State("RolloutFailed", f"{message}: {failure.message}", needs_help=True)


def is_failure(condition: DeploymentCondition) -> bool:
    return (condition.type, condition.status) in (("Progressing", "False"), ("ReplicaFailure", "True"))
