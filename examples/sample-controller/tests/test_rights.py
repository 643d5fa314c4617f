"""config/rbac/role.yaml is written by hand: it allows what the controller does, and nothing else."""

from typing import Final, NamedTuple

from kubewright import Config
from kubewright.client._transport import HTTPTransport
from kubewright.http.message import Request, Response
from kubewright.testing import eventually, gone

from foos import BeforeCreation, Foos, at_work, condition_of, role
from sample_controller.controller.deployment import deployment_for

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Right(NamedTuple):
    verb: str
    group: str
    resource: str


NEEDED_ELSEWHERE: Final = {
    Right("update", "samplecontroller.k8s.io", "foos/finalizers"),
    Right("list", "samplecontroller.k8s.io", "foos"),
    Right("list", "apps", "deployments"),
}
"""By the admission plugin OwnerReferencesPermissionEnforcement, for owner references; where a server streams no lists."""


class Recording:
    """A transport that notes which right each request takes."""

    def __init__(self, server: Config) -> None:
        self.used: set[Right] = set()
        self._inner = HTTPTransport(server)

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:  # noqa: ASYNC109 - as Transport has it
        self.used.add(right_for(request))
        return await self._inner.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


def right_for(request: Request) -> Right:
    """As RBAC sees it."""
    _, _, group, _, *rest = request.path.split("/")
    if rest[0] == "namespaces":
        rest = rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    verb = _VERBS.get(request.method) or ("get" if name else "watch" if "watch=" in request.query else "list")
    return Right(verb, group, f"{resource}/{subresource}" if subresource else resource)


async def test_the_role_is_what_a_foos_life_takes(foos: Foos, account: Config) -> None:
    recording = Recording(account)
    theirs = await foos.create_foreign_deployment()

    async def another_was_faster() -> None:
        await foos.client.create(deployment_for(await foos.get()))

    async def was_told_twice() -> None:
        assert condition_of(await foos.get()).reason == "ErrResourceExists"
        assert (await foos.event("ErrResourceExists")).series is not None

    async with at_work(BeforeCreation(recording, "other", another_was_faster)):
        await foos.create(deployment="web")
        await eventually(was_told_twice)
        await foos.client.delete(theirs)
        await foos.synced()
        await foos.change(replicas=3)
        await foos.synced(replicas=3)
        await foos.change(deploymentName="other")
        await foos.synced(replicas=3)
        await gone(foos.deployment, "web")
    rules = {Right(verb, *each.api_groups, *each.resources) for each in role() for verb in each.verbs}
    assert rules - recording.used <= NEEDED_ELSEWHERE
    assert recording.used <= rules
