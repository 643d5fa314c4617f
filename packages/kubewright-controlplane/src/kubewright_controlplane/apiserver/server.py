"""The API server: one handler for every request.

The way of a request: authenticate, (impersonate), authorize, route, decode, default, admit, validate, record field
ownership, commit, encode. There is no await between the read of the stored object and its commit, so a write is
atomic because nothing else runs. A write that a webhook concerns does wait, and begins again if the object has changed.

The parts of `APIServer`:

    storage         Store              objects and events
    registry        ResourceSet        resources, each with its Registry
    authentication  Authentication     the user of a request
    authorization   RBAC               decides what users may do; observes roles and bindings
    kinds           builtin.install    the built-in kinds, from the catalog and `kinds/<group>.py`
    admission       Chain              plugins that change or reject writes; webhooks
    apiextensions   Definitions        serves CustomResourceDefinitions; observes their commits
"""

from __future__ import annotations

from pathlib import Path

from kubewright.http.message import Request, Response
from kubewright_controlplane.apiserver.admission.chain import Chain, default_plugins
from kubewright_controlplane.apiserver.admission.policies.reviewers import policy_reviewers
from kubewright_controlplane.apiserver.admission.policies.typechecking import TypeChecking
from kubewright_controlplane.apiserver.admission.webhooks.reviewers import Webhooks
from kubewright_controlplane.apiserver.apiextensions.definitions import Definitions
from kubewright_controlplane.apiserver.authentication.authentication import build_authentication
from kubewright_controlplane.apiserver.authorization.authorizer import build_authorizer
from kubewright_controlplane.apiserver.bootstrap import create_missing
from kubewright_controlplane.apiserver.endpoints.metrics import Metrics
from kubewright_controlplane.apiserver.endpoints.paths import PathEndpoints
from kubewright_controlplane.apiserver.endpoints.pipeline import Pipeline
from kubewright_controlplane.apiserver.endpoints.resources import ResourceEndpoints
from kubewright_controlplane.apiserver.kinds import builtin
from kubewright_controlplane.apiserver.kinds.core.events import EventExpiry
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.history import HistoryExpiry
from kubewright_controlplane.apiserver.storage.store import Log, Store
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients
from kubewright_controlplane.apiserver.webhooks.services import ServiceResolver


class APIServer:
    """An API server in this process. `handle` is an `http.message.Handler`: serve it on a socket, or call it.

    Guarantees
        A write that was answered is visible to every later read and to every watch.
        Revisions rise by one with each commit. Watches see commits in that order, exactly once.

    Raises ConfigError if the data folder cannot be used, or is in use.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self._store = Store(history=self.options.history, log=_open_log(self.options.data))
        admission = Chain()
        self.resources = ResourceSet(self._store, admission, self.options.clock)
        authentication = build_authentication(self.resources, self.options)
        authorizer = build_authorizer(self.resources)
        builtin.install(builtin.ServerParts(self.options, self.resources, authentication, authorizer))
        disabled = self.options.disabled_admission
        admission.extend(default_plugins(self.resources, disabled))
        self._webhooks = WebhookClients(ServiceResolver(self.resources), self.options.webhooks)
        webhooks = Webhooks(self.resources, authorizer, self._webhooks)
        mutating, validating = policy_reviewers(self.resources, authorizer, disabled)
        admission.add_reviewers([*mutating, webhooks.mutating, *validating, webhooks.validating])
        self._definitions = Definitions(self.resources, self._webhooks, self.options.clock)
        self._expiry = EventExpiry(self.resources, self.options.event_seconds, self.options.clock)
        self._history_expiry = HistoryExpiry(self._store, self.options.history_seconds, self.options.clock)
        self._type_checking = TypeChecking(self.resources, self.options.clock)
        metrics = Metrics(self.resources)
        self._pipeline = Pipeline(
            authentication,
            authorizer,
            ResourceEndpoints(self.resources, self.options.clock),
            PathEndpoints(self.resources, metrics, self.options.issuer, authentication.key_set),
            metrics,
        )

    async def start(self) -> None:
        """Create the objects that every cluster has and this one lacks."""
        create_missing(self.resources, self.options.service_cidr)
        self._expiry.start()
        self._history_expiry.start()
        self._type_checking.start()

    async def handle(self, request: Request) -> Response:
        """Answer a request. Never raises: an error becomes an answer."""
        return await self._pipeline.handle(request)

    async def close(self) -> None:
        """End all watches, and write pending commits to the data folder."""
        self._expiry.close()
        self._history_expiry.close()
        self._type_checking.close()
        await self._webhooks.close()
        await self._store.close()


def _open_log(folder: Path | None) -> Log | None:
    if folder is None:
        return None
    # SQLite is imported only if there is a data folder
    from kubewright_controlplane.apiserver.storage.log import SQLiteLog

    return SQLiteLog(folder)
