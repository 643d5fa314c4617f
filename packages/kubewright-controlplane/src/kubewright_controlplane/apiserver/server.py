"""The API server: one handler for every request.

The way of a request: authenticate, (impersonate), authorize, route, decode, default, admit, validate, record field
ownership, commit, encode. There is no await between the read of the stored object and its commit, so a write is
atomic because nothing else runs. A write that a webhook concerns, or that is large and runs on the worker, does wait,
and begins again if the object has changed.

The parts of `APIServer`:

    storage         Store              objects and events
    registry        ResourceSet        resources, each with its Registry
    authentication  Authentication     the user of a request
    authorization   NodesAndRBAC       decides what users may do; observes roles, bindings and Pods
    kinds           builtin.install    the built-in kinds, from the catalog and `kinds/<group>.py`
    admission       Chain              plugins, policies and webhooks that change or reject writes
    worker          Worker             the thread for large requests
    apiextensions   Definitions        serves CustomResourceDefinitions; observes their commits
    aggregator      Aggregator         passes requests on to extension servers; observes APIServices

Follows k8s.io/apiserver pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

from dataclasses import replace

from kubewright._runtime.log import get_logger
from kubewright.http.message import Request, Response
from kubewright.machinery import names
from kubewright.machinery.errors import APIError, BadRequest, InternalError, RequestTooLarge
from kubewright.machinery.selectors import FieldSelector
from kubewright_controlplane.apiserver.admission.chain import Chain
from kubewright_controlplane.apiserver.admission.plugins import build_plugins
from kubewright_controlplane.apiserver.admission.podsecurity.plugin import PodSecurity
from kubewright_controlplane.apiserver.admission.policies.reviewers import policy_reviewers
from kubewright_controlplane.apiserver.admission.policies.typechecking import TypeChecking
from kubewright_controlplane.apiserver.admission.webhooks.reviewers import Webhooks
from kubewright_controlplane.apiserver.aggregator.aggregator import Aggregator
from kubewright_controlplane.apiserver.aggregator.frontproxy import FrontProxy
from kubewright_controlplane.apiserver.apiextensions.definitions import Definitions
from kubewright_controlplane.apiserver.authentication.authentication import build_authentication, impersonate
from kubewright_controlplane.apiserver.authorization.attributes import AccessAttributes, forbidden
from kubewright_controlplane.apiserver.authorization.authorizer import build_authorizer
from kubewright_controlplane.apiserver.bootstrap import create_missing
from kubewright_controlplane.apiserver.endpoints import answers
from kubewright_controlplane.apiserver.endpoints.metrics import Metrics
from kubewright_controlplane.apiserver.endpoints.paths import PathEndpoints
from kubewright_controlplane.apiserver.endpoints.requestinfo import RequestInfo, parse_target
from kubewright_controlplane.apiserver.endpoints.resources import ResourceEndpoints
from kubewright_controlplane.apiserver.endpoints.worker import Steps, Worker
from kubewright_controlplane.apiserver.kinds import builtin
from kubewright_controlplane.apiserver.kinds.core.events import EventExpiry
from kubewright_controlplane.apiserver.options import ServerOptions
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.apiserver.storage.store import HistoryExpiry, Log, Store
from kubewright_controlplane.apiserver.user import ANONYMOUS_USER, UserInfo
from kubewright_controlplane.apiserver.webhooks.client import WebhookClients
from kubewright_controlplane.apiserver.webhooks.services import ServiceResolver

BODY_LIMIT = 3 * 1024 * 1024
"""Limit of a request's body in bytes, as in a real API server."""

_STREAMING_SUBRESOURCES = frozenset({"attach", "exec", "portforward"})
"""Subresources that also require `create`, since the handshake of a WebSocket is always a GET (KEP-4006, since 1.35).
"""

_LONGEST_SELECTOR = 4096
"""Length of a field selector that may grant access to one object: it is parsed before the request is authorized."""
_SELECTING = frozenset({"deletecollection", "list", "watch"})
"""Verbs whose field selectors matter for authorization."""

_log = get_logger(__name__)


class APIServer:
    """An API server in this process. `handle` is an `http.message.Handler`: serve it on a socket, or call it.

    Guarantees
        A write that was answered is visible to every later read and to every watch.
        Revisions rise by one with each commit. Watches see commits in that order, exactly once.

    Raises ConfigError if the data folder cannot be used, or is in use.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        self.options = options or ServerOptions()
        self._store = Store(history=self.options.history, log=_open_log(self.options))
        admission = Chain()
        self.resources = ResourceSet(self._store, admission, self.options.clock)
        self.authentication = build_authentication(self.resources, self.options)
        self._authorizer = build_authorizer(
            self.resources, allow_all=self.options.allow_all, nodes=self.options.node_authorizer
        )
        builtin.install(builtin.ServerParts(self.options, self.resources, self.authentication, self._authorizer))
        disabled = self.options.disabled_admission
        plugins = build_plugins(self.resources, self._authorizer, self.options)
        admission.use(plugins)
        pod_security = [each for each in plugins if isinstance(each, PodSecurity)]
        self._worker = Worker()
        self._webhooks = WebhookClients(ServiceResolver(self.resources), self.options.webhooks, self._worker)
        webhooks = Webhooks(self.resources, self._authorizer, self._webhooks, disabled)
        mutating, validating = policy_reviewers(self.resources, self._authorizer, disabled)
        admission.add_reviewers([*mutating, *webhooks.mutating, *pod_security, *validating, *webhooks.validating])
        self.front_proxy = FrontProxy(self.options.data)
        self._aggregator = Aggregator(self.resources, self.front_proxy, self.options.webhooks, self.options.clock)
        self._definitions = Definitions(self.resources, self._webhooks, self._worker, self.options.clock)
        self._expiry = EventExpiry(self.resources, self.options.event_seconds, self.options.clock)
        self._history_expiry = HistoryExpiry(self._store, self.options.history_seconds, self.options.clock)
        self._type_checking = TypeChecking(self.resources, self.options.clock)
        self._metrics = Metrics(self.resources)
        self._resource_endpoints = ResourceEndpoints(self.resources, self._worker, self.options.clock)
        self._path_endpoints = PathEndpoints(
            self.resources,
            self._aggregator.extensions,
            self._metrics,
            self.options.issuer,
            self.authentication.key_set,
        )

    async def start(self, service_cidr: str | None = None) -> None:
        """Create the objects that every cluster has and this one lacks.

        `service_cidr` replaces the range of the options. A range that is stored already takes precedence over both.
        """
        create_missing(self.resources, replace(self.options, service_cidr=service_cidr or self.options.service_cidr))
        self._aggregator.start()
        self._definitions.start()
        self._expiry.start()
        self._history_expiry.start()
        self._type_checking.start()

    async def handle(self, request: Request) -> Response:
        """Answer a request. Never raises: an error becomes an answer."""
        info = parse_target(request.method, request.target)
        try:
            response = await self._answer(request, info)
        except APIError as error:
            response = answers.failure(error)
        except RecursionError:  # how deep is too deep depends on the version of Python
            _log.warning("Deeply nested request rejected", method=request.method, target=request.target)
            response = answers.failure(BadRequest("the body of the request is nested too deeply"))
        except Exception:  # noqa: BLE001 -- a defect in one request must not affect others
            _log.exception("Request failed", method=request.method, target=request.target)
            text = "This request caused apiserver to panic. Look in the logs for details."
            response = answers.failure(InternalError(text))
        response = self._finished(request, info, response)
        await answers.compress(request, response)
        return response

    def _finished(self, request: Request, info: RequestInfo, response: Response) -> Response:
        """Return an answer with its headers, and count it."""
        response.headers["audit-id"] = request.headers.get("audit-id") or names.generate_uid()
        answers.indent(request, info, response)
        self._metrics.count(info, response.status)
        return response

    def admit(self, request: Request) -> Response | None:
        """Return the answer to a request that is refused whatever its body says, before the body is read."""
        info = parse_target(request.method, request.target)
        try:
            self._authorized(request, info)
            if int(request.headers.get("content-length", "0")) > BODY_LIMIT:
                raise _too_large()
        except APIError as error:
            return self._finished(request, info, answers.failure(error))
        return None

    async def _answer(self, request: Request, info: RequestInfo) -> Response:
        user = self._authorized(request, info)
        if len(request.body) > BODY_LIMIT:
            raise _too_large()
        extension = self._aggregator.find(info.path)
        if extension is not None:
            return await self._aggregator.forward(extension, request, user)
        if info.resource:
            return await self._resource_endpoints.serve(request, info, user)
        return await Steps(self._worker, user.name).run(lambda: self._path_endpoints.serve(request, info))

    def _authorized(self, request: Request, info: RequestInfo) -> UserInfo:
        """Return the user of a request. Raises Unauthorized or Forbidden."""
        authenticated = self.authentication.authenticate(request)
        request.authenticated = authenticated is not ANONYMOUS_USER
        access = _access(authenticated, info)
        user = impersonate(request, access, self._authorizer)
        access = access if user is access.user else replace(access, user=user)
        self._authorize(access)
        if request.upgrade == "websocket" and info.resource == "pods" and info.subresource in _STREAMING_SUBRESOURCES:
            self._authorize(replace(access, verb="create"))
        return user

    def _authorize(self, access: AccessAttributes) -> None:
        decision = self._authorizer.authorize(access)
        if not decision.allowed:
            raise forbidden(access, decision.reason)

    async def close(self) -> None:
        """End all watches, and write pending commits to the data folder."""
        self._expiry.close()
        self._history_expiry.close()
        self._type_checking.close()
        self._definitions.close()
        await self._aggregator.close()
        await self._webhooks.close()
        self._worker.close()
        await self._store.close()


def _too_large() -> RequestTooLarge:
    return RequestTooLarge(f"Request entity too large: limit is {BODY_LIMIT}")


def _open_log(options: ServerOptions) -> Log | None:
    if options.data is None:
        return None
    # SQLite is imported only if there is a data folder
    from kubewright_controlplane.apiserver.storage.log import SQLiteLog

    return SQLiteLog(options.data, sync=options.sync)


def _access(user: UserInfo, info: RequestInfo) -> AccessAttributes:
    """Return the authorization request for a request."""
    if not info.resource:
        return AccessAttributes(user, info.verb, path=info.path)
    name = info.name or (_selected_name(info) if info.verb in ("list", "watch") else "")
    selector = info.query.text("fieldSelector") if info.verb in _SELECTING else ""
    return AccessAttributes(
        user,
        info.verb,
        info.group,
        info.version,
        info.resource,
        info.subresource,
        info.namespace,
        name,
        field_selector=selector,
    )


def _selected_name(info: RequestInfo) -> str:
    """Return the name that a field selector requires: permission for that object is enough to list or watch it."""
    text = info.query.text("fieldSelector")
    if "metadata.name" not in text or len(text) > _LONGEST_SELECTOR:
        return ""
    try:
        selector = FieldSelector.parse(text)
    except ValueError:
        return ""  # reported when the request is served
    return selector.exact("metadata.name") or ""
