"""config/rbac/role.yaml is written by hand. It grants exactly the permissions that the controller uses."""

from typing import Final, NamedTuple

from kubewright import Config
from kubewright.client import HTTPTransport
from kubewright.http.message import Request, Response
from kubewright.testing import eventually, gone

from foos import BeforeCreation, Foos, at_work, condition_of, role
from sample_controller.controller.deployment import deployment_for

_VERBS: Final = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class Permission(NamedTuple):
    verb: str
    group: str
    resource: str


NEEDED_ELSEWHERE: Final = {
    Permission("update", "samplecontroller.k8s.io", "foos/finalizers"),
    Permission("list", "samplecontroller.k8s.io", "foos"),
    Permission("list", "apps", "deployments"),
}
"""For the admission plugin OwnerReferencesPermissionEnforcement, and for servers that do not stream lists."""


class Recording:
    """A transport that records the permission that each request needs."""

    def __init__(self, server: Config) -> None:
        self.used: set[Permission] = set()
        self._inner = HTTPTransport(server)

    async def send(self, request: Request, *, timeout: float | None = None, stream: bool = False) -> Response:  # noqa: ASYNC109 - as Transport has it
        self.used.add(permission_for(request))
        return await self._inner.send(request, timeout=timeout, stream=stream)

    async def close(self) -> None:
        await self._inner.close()


def permission_for(request: Request) -> Permission:
    """Return the permission that RBAC checks for a request."""
    _, _, group, _, *rest = request.path.split("/")
    if rest[0] == "namespaces":
        rest = rest[2:]
    resource, name, subresource = [*rest, "", ""][:3]
    verb = _VERBS.get(request.method) or ("get" if name else "watch" if "watch=" in request.query else "list")
    return Permission(verb, group, f"{resource}/{subresource}" if subresource else resource)


async def test_the_role_grants_exactly_the_used_permissions(foos: Foos, account: Config) -> None:
    recording = Recording(account)
    theirs = await foos.create_foreign_deployment()

    async def create_first() -> None:
        await foos.client.create(deployment_for(await foos.get()))

    async def was_reported_twice() -> None:
        assert condition_of(await foos.get()).reason == "ErrResourceExists"
        assert (await foos.event("ErrResourceExists")).series is not None

    async with at_work(BeforeCreation(recording, "other", create_first)):
        await foos.create(deployment="web")
        await eventually(was_reported_twice)
        await foos.client.delete(theirs)
        await foos.synced()
        await foos.change(replicas=3)
        await foos.synced(replicas=3)
        await foos.change(deploymentName="other")
        await foos.synced(replicas=3)
        await gone(foos.deployment, "web")
    rules = {Permission(verb, *each.api_groups, *each.resources) for each in role() for verb in each.verbs}
    assert rules - recording.used <= NEEDED_ELSEWHERE
    assert recording.used <= rules
