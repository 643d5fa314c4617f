"""The API server: one handler for every request.

The way of a request: authenticate, (impersonate), authorize, route, decode, default, admit, validate, own fields,
commit, encode. From the read of the stored object to its commit there is no await: a write is atomic because nothing
else runs.

What `APIServer` puts together, and where each part comes from:

    storage         Store                          objects and events
    registry        ResourceSet                    resources, each with its Registry
    registry        builtin.install(server)        the built-in kinds, from the catalog and `registry/<group>.py`
    apiextensions   install(server)                serves CustomResourceDefinitions; observes their commits
    authentication  build(server) -> Authentication  `.authenticate(Request) -> UserInfo`, `.key_set()` for JWKS,
                                                   `.impersonate(Request, UserInfo, Authorizer) -> UserInfo`
    authorization   build(server) -> Authorizer      RBAC; observes roles and bindings
    admission       build(server) -> list[AdmissionPlugin]
"""

from __future__ import annotations

from kubewright.apiserver.authentication import Authentication
from kubewright.apiserver.authorization.rbac import RBAC
from kubewright.apiserver.options import ServerOptions
from kubewright.apiserver.registry.resourceset import ResourceSet
from kubewright.http.message import Request, Response


class APIServer:
    """An API server in this process. `handle` is an `http.message.Handler`: put a socket before it, or call it.

    Guarantees
        A write that was answered is seen by every later read and by every watch.
        Revisions rise by one with each commit; watches see commits in that order, none twice, none left out.
    """

    options: ServerOptions
    resources: ResourceSet
    authentication: Authentication
    authorizer: RBAC

    async def start(self) -> None:
        """Load what was kept, install the built-in kinds, create what every cluster holds."""
        raise NotImplementedError

    async def handle(self, request: Request) -> Response:
        raise NotImplementedError

    async def close(self) -> None:
        """End watches, and write what is left to write."""
        raise NotImplementedError
