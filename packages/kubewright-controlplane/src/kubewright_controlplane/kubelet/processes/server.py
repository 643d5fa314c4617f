"""A kubelet's own server, for API servers in other processes: HTTPS, and whoever asks has to be somebody who may.

Guarantees
    Only a client with a certificate of the cluster's authority is answered, and only when the API server says that it
    may speak with the node: the right to `nodes/proxy`, `get` for logs and `create` for what enters a container.
Caveat
    It shows a certificate that nobody signed, as kubelets do unless they are told otherwise.

Source: https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/.
"""

from __future__ import annotations

import ssl

from kubewright.apis.authorization.v1 import ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec
from kubewright.client._client import Client
from kubewright.http.message import Handler, Peer, Request, Response
from kubewright.http.server import Server
from kubewright.machinery.errors import KubewrightError
from kubewright.manager._certificates import server_context


class KubeletServer:
    """Serves `handler` at an address of this machine, for the API server of a cluster whose authority is `ca`."""

    def __init__(self, handler: Handler, node: str, client: Client, ca: str, host: str) -> None:
        """`client` asks who may, and has the right to. Raises ConfigError when no certificate can be made."""
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
            allowed = await self._may(peer, verb)
        except KubewrightError as error:
            return Response.plain(500, f"the API server could not be asked whether this is allowed: {error}\n")
        if not allowed:
            who = f'user "{peer.common_name}" may not {verb} nodes/proxy of node "{self._node}"'
            return Response.plain(403, f"Forbidden: {who}\n")
        return await self._handler(request)

    async def _may(self, peer: Peer, verb: str) -> bool:
        access = SubjectAccessReviewSpec(
            user=peer.common_name,
            groups=list(peer.organizations),
            resource_attributes=ResourceAttributes(
                resource="nodes", subresource="proxy", version="v1", name=self._node, verb=verb
            ),
        )
        review = await self._client.create(SubjectAccessReview(spec=access))
        return review.status is not None and review.status.allowed
