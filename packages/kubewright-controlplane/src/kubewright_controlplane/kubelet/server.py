"""The kubelet's HTTP API: logs, exec, attach and port forwarding of Pods that run as processes.

`KubeletAPI` answers the requests that an API server sends to a kubelet. The embedded API server calls it in the same
process; other API servers reach it over HTTPS, through `KubeletServer`.

Source: https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, unquote

from kubewright.apis.authorization.v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubewright.cache._entry import ObjectKey
from kubewright.client._client import Client
from kubewright.http import spdy
from kubewright.http.message import Handler, Peer, Request, Response
from kubewright.http.server import Server
from kubewright.machinery import time
from kubewright.machinery.errors import ConnectionFailed, KubewrightError
from kubewright.machinery.integers import parse_flag
from kubewright.machinery.json import JSONObject
from kubewright.manager._certificates import server_context
from kubewright_controlplane.common.budget import SocketBudget
from kubewright_controlplane.common.durations import duration
from kubewright_controlplane.kubelet import portforward, remotecommand
from kubewright_controlplane.kubelet.container import ContainerRun, ContainerRunner, NoLog
from kubewright_controlplane.kubelet.exec import Channels, failure
from kubewright_controlplane.kubelet.logs import LogOptions
from kubewright_controlplane.kubelet.pod import PodRunner
from kubewright_controlplane.kubelet.portforward import PortForward, WebSocketForward, ports_of
from kubewright_controlplane.kubelet.processes import ProcessPods
from kubewright_controlplane.kubelet.remotecommand import ExecOptions, ExecTransport, SPDYTransport, WebSocketTransport

if TYPE_CHECKING:
    from kubewright.http.websocket import WebSocket

_FORWARDED_SHARE: Final = 8
"""Port forwarding uses at most this part of the file descriptors."""
_EXEC_SHARE: Final = 4
"""Commands in containers use at most this part of the file descriptors."""
_EXEC_DESCRIPTORS: Final = 5
"""The file descriptors of one command, beyond the connection of its client: pipes, and what observes the process."""
_NO_UPGRADE = "Upgrade request required: to WebSocket or SPDY/3.1\n"


class KubeletAPI:
    """Serves `GET /{containerLogs|exec|attach}/{namespace}/{pod}/{container}` and `/portForward/{namespace}/{pod}`.

    Answers 404 for a Pod that does not run as a process.
    """

    def __init__(self, pods: ProcessPods) -> None:
        self._pods = pods
        self._forwarded = SocketBudget("kubewright.kubelet", "Port forwarding is full", _FORWARDED_SHARE)
        """The connections to all Pods."""
        self._executed = SocketBudget("kubewright.kubelet", "Exec is full", _EXEC_SHARE)
        """The commands in all Pods."""

    async def handle(self, request: Request) -> Response:
        """Answer a request of an API server."""
        what, *rest = [unquote(part) for part in request.path.strip("/").split("/")]
        if what == "portForward" and len(rest) == 2:
            return self._forward(ObjectKey(*rest), request)
        if len(rest) != 3:
            return Response.plain(404, "404 page not found\n")
        namespace, pod, container = rest
        name, query = ObjectKey(namespace, pod), parse_qs(request.query, keep_blank_values=True)
        if what == "containerLogs":
            return self._log(name, container, {key: values[0] for key, values in query.items()})
        if what == "attach":
            return self._session(name, container, request, None)
        if what == "exec" and "command" not in query:
            return Response.plain(400, "you must specify at least 1 command for the container\n")
        if what == "exec":
            return self._session(name, container, request, query["command"])
        return Response.plain(404, "404 page not found\n")

    def _session(self, name: ObjectKey, container: str, request: Request, command: list[str] | None) -> Response:
        """Open a session with a new process that runs `command`, or with the container's own process if it is None."""
        pod = self._pods.runner_of(name)
        try:
            runner = pod.container(container) if pod is not None else None
        except KeyError:
            runner = None
        if runner is None:
            return Response.plain(404, f"container {container} of pod {name} does not run here\n")
        if runner.state.running is None:
            return Response.plain(500, f'unable to upgrade connection: container not found ("{container}")\n')
        options = ExecOptions.of(parse_qs(request.query))
        if not (options.stdin or options.stdout or options.stderr):
            return Response.plain(400, "you must specify at least 1 of stdin, stdout, stderr\n")

        async def over_websocket(socket: WebSocket) -> None:
            await self._run_session(runner, command, WebSocketTransport(socket, options), options)

        async def over_spdy(connection: spdy.Connection, protocol: str) -> None:
            await self._run_session(runner, command, SPDYTransport(connection, protocol, options), options)

        if request.upgrade == "websocket":
            from kubewright.http.websocket import accept  # imported lazily: its library is slow to load

            return accept(request, remotecommand.WEBSOCKET_PROTOCOLS, over_websocket)
        if request.upgrade:
            return spdy.accept(request, remotecommand.SPDY_PROTOCOLS, over_spdy)
        return Response.plain(400, _NO_UPGRADE)

    async def _run_session(
        self, runner: ContainerRunner, command: list[str] | None, transport: ExecTransport, options: ExecOptions
    ) -> None:
        """Run a command in a container, or with None attach to the container's own process."""
        channels = Channels(transport, options)
        with suppress(ConnectionFailed):  # the client has disconnected
            try:
                run = runner.current_run
                status = await (self._execute(run, command, channels) if command else run.attach(channels))
            except LookupError:
                status = failure(f'container not found ("{runner.spec.name}")')
            if status is not None:
                await channels.close(status)

    async def _execute(self, run: ContainerRun, command: list[str], channels: Channels) -> JSONObject | None:
        """Run a command in a container, unless too many run. Returns as `ContainerRun.execute`."""
        if not self._executed.take(_EXEC_DESCRIPTORS):
            return failure("too many commands run in containers")
        try:
            return await run.execute(command, channels)
        finally:
            self._executed.free(_EXEC_DESCRIPTORS)

    def _forward(self, name: ObjectKey, request: Request) -> Response:
        """Forward connections to ports of a Pod."""
        runner = self._pods.runner_of(name)
        if runner is None or runner.ended:
            return Response.plain(404, f"pod {name} does not run here\n")
        if request.upgrade == "websocket":
            return _forward_over_websocket(runner, request, self._forwarded)
        if request.upgrade:
            return spdy.accept(
                request,
                portforward.SPDY_PROTOCOLS,
                lambda connection, protocol: PortForward(connection, runner.address, self._forwarded).serve(),
            )
        return Response.plain(400, _NO_UPGRADE)

    def _log(self, name: ObjectKey, container: str, query: Mapping[str, str]) -> Response:
        try:
            log = self._pods.log(name, container, previous=parse_flag(query.get("previous", "false")))
        except KeyError:
            return Response.plain(404, f"container {container} of pod {name} does not run here\n")
        except NoLog as error:
            return Response.plain(400, str(error).format(f'"{container}" in pod "{name.name}"'))
        return Response(200, {"content-type": "text/plain"}, log.read(_log_options(query, self._pods.clock.now())))


def _forward_over_websocket(runner: PodRunner, request: Request, budget: SocketBudget) -> Response:
    from kubewright.http.websocket import accept

    offered = request.headers.get("sec-websocket-protocol", "")
    try:
        ports = [] if portforward.TUNNEL in offered else ports_of(parse_qs(request.query))
    except ValueError as error:
        return Response.plain(400, f"{error}\n")

    async def serve(socket: WebSocket) -> None:
        if socket.protocol == portforward.TUNNEL:
            await PortForward(spdy.Connection(socket), runner.address, budget).serve()
        else:
            await WebSocketForward(socket, runner.address, ports, budget).serve()

    known = (portforward.TUNNEL,) if portforward.TUNNEL in offered else portforward.WEBSOCKET_PROTOCOLS
    return accept(request, known, serve)


class KubeletServer:
    """Serves a handler over HTTPS, for the API server of a cluster.

    Guarantees
        Only clients with a certificate of the cluster's authority are answered, and only if the API server permits
        them to access `nodes/proxy`: `get` for logs, `create` for sessions and port forwarding.
    Not guaranteed
        Clients cannot verify the server: its certificate is self-signed, like that of a kubelet by default.
    """

    def __init__(self, handler: Handler, node: str, client: Client, ca: str, host: str) -> None:
        """`client` may create SubjectAccessReviews, `ca` is the authority. Raises ConfigError without a certificate."""
        self._handler = handler
        self._node = node
        self._client = client
        context = server_context(None, lambda: None)
        context.load_verify_locations(cadata=ca)
        context.verify_mode = ssl.CERT_REQUIRED
        self._server = Server(self._handle, host=host, ssl=context)

    @property
    def port(self) -> int:
        return self._server.port

    async def start(self) -> None:
        await self._server.start()

    async def close(self) -> None:
        await self._server.close()

    async def _handle(self, request: Request) -> Response:
        peer = request.peer or Peer()
        verb = "get" if request.path.startswith("/containerLogs/") else "create"
        try:
            allowed = await self._is_allowed(peer, verb)
        except KubewrightError as error:
            return Response.plain(500, f"the API server could not check the permission: {error}\n")
        if not allowed:
            message = f'user "{peer.common_name}" may not {verb} nodes/proxy of node "{self._node}"'
            return Response.plain(403, f"Forbidden: {message}\n")
        return await self._handler(request)

    async def _is_allowed(self, peer: Peer, verb: str) -> bool:
        access = SubjectAccessReviewSpec(
            user=peer.common_name,
            groups=list(peer.organizations),
            resource_attributes=ResourceAttributes(
                resource="nodes", subresource="proxy", version="v1", name=self._node, verb=verb
            ),
        )
        review = await self._client.create(SubjectAccessReview(spec=access))
        return review.status is not None and review.status.allowed


def _log_options(query: Mapping[str, str], now: datetime) -> LogOptions:
    """Return the options of `pods/log`, which the API server has validated."""
    since = time.parse(query["sinceTime"]) if query.get("sinceTime") else None
    if query.get("sinceSeconds"):
        since = now - duration(int(query["sinceSeconds"]))
    return LogOptions(
        follow=parse_flag(query.get("follow", "false")),
        timestamps=parse_flag(query.get("timestamps", "false")),
        since=since,
        tail=int(query["tailLines"]) if query.get("tailLines") else None,
        limit=int(query["limitBytes"]) if query.get("limitBytes") else None,
    )
