"""The webhook server of one run of a manager.

It starts before the caches, because their lists may need its conversions, and on every replica, leader or not. Reviews
wait until the caches are complete and the resources are open. At the stop, it closes before them, and reviews that run
finish first.

Follows controller-runtime's pkg/webhook and the order of its pkg/manager.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Final

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.http.request_parser import Limits
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
from kubewright.manager._certificates import Certificate, require_clients, server_context
from kubewright.manager._metrics import Metrics
from kubewright.manager._options import ManagerOptions
from kubewright.manager._serving import BIND_HOST
from kubewright.webhooks._client import webhook_client
from kubewright.webhooks._conversion import Conversion
from kubewright.webhooks._declaration import AdmissionWebhook
from kubewright.webhooks._local import LocalWebhooks
from kubewright.webhooks._provider import ServerCertificate
from kubewright.webhooks._serving import WebhookHandler, WebhookRuntime

if TYPE_CHECKING:
    from kubewright.webhooks._local_registration import LocalRegistration

_CONNECTIONS: Final = 4096
"""Far more than the requests that an API server handles at a time, each with a connection of its own."""


class WebhookServer:
    """Serves the webhooks of a manager while `running` is entered."""

    def __init__(self, options: ManagerOptions, metrics: Metrics, local: LocalWebhooks | None) -> None:
        """`local`: have an API server on this machine call this process."""
        self.port = 0
        """The port that it listens on; 0 while it does not."""
        self._options = options
        self._metrics = metrics
        self._local = local
        self._runtime = WebhookRuntime()
        self._certificate: ServerCertificate | None = None
        self._registration: LocalRegistration | None = None
        self._registered = AsyncExitStack()
        """Ends what refers to the server, before the server ends."""
        self._server: Server | None = None
        self._log = get_logger("kubewright.manager.webhooks")

    @property
    def converts(self) -> bool:
        """Whether it serves conversions."""
        return any(isinstance(each, Conversion) for each in self._options.webhooks)

    def check(self) -> None:
        """Raise ConfigError if API servers cannot call it."""
        if not self.port or self._certificate is None:
            raise ConfigError("the webhook server does not listen")
        self._certificate.check()

    @asynccontextmanager
    async def running(self, client: Client, namespace: str) -> AsyncGenerator[None]:
        """Serve while the block runs. Raises ConfigError without a certificate, and if the port is not available."""
        if self._local is not None:
            from kubewright.webhooks._local_registration import LocalRegistration  # loads built-in kinds

            options = self._options
            self._registration = LocalRegistration(self._local, options.webhooks, options.name, options.clock.now())
            self._certificate = self._registration.certificate
            async with self._serving(self._certificate):
                await self._registered.enter_async_context(self._registration.converting(client, self.port))
                yield
            return
        async with self._provided(client, namespace) as self._certificate, self._serving(self._certificate):
            self._metrics.webhook_certificate_expirations = self._certificate.expirations
            yield

    @asynccontextmanager
    async def reviewing(self, client: Client, cache: Cache, resource: object) -> AsyncGenerator[None]:
        """Answer reviews while the block runs, then let reviews that run finish and stop the server."""

        def client_of(webhook: AdmissionWebhook, report: Callable[[str], None]) -> CachedClient:
            return webhook_client(client, cache, webhook.rbac_rules(), report)

        self._runtime.client_of = client_of
        self._runtime.resource = resource
        self._runtime.open.set()
        try:
            if self._registration is not None:
                await self._registered.enter_async_context(self._registration.reviewing())
            yield
        finally:
            await self._stop()

    @asynccontextmanager
    async def _provided(self, client: Client, namespace: str) -> AsyncGenerator[ServerCertificate]:
        given = self._options.webhook_certificate
        if given is None:
            raise ConfigError(
                "the webhooks have no certificate: give the Manager webhook_certificate=ManagedCertificate(...), or "
                "mount one and name its folder with --webhook-cert-path; to run without webhooks, use --webhook-port=-1"
            )
        if isinstance(given, Certificate):
            provided = ServerCertificate(server_context(given, self._metrics.certificate_read, "webhook"))
            self._require_clients(provided)
            yield provided
            return
        async with given.provide(client, self._options.webhooks, namespace) as provided:
            self._require_clients(provided)
            yield provided

    def _require_clients(self, certificate: ServerCertificate) -> None:
        """Verify clients if there is a CA for them."""
        if self._options.webhook_client_ca is not None:
            require_clients(certificate.context, self._options.webhook_client_ca)

    @asynccontextmanager
    async def _serving(self, certificate: ServerCertificate) -> AsyncGenerator[None]:
        await self._start(certificate)
        try:
            yield
        finally:
            await self._stop()

    async def _start(self, certificate: ServerCertificate) -> None:
        options = self._options
        port = options.webhook_port or 0
        tracing = None
        if options.tracer_provider is not None:
            from kubewright.webhooks._tracing import WebhookTracing

            tracing = WebhookTracing(options.tracer_provider)
        webhooks = self._registration.webhooks if self._registration is not None else options.webhooks
        handler = WebhookHandler(webhooks, self._runtime, observer=self._metrics.webhook, tracing=tracing)
        self._server = Server(
            handler.handle,
            host=self._local.bind_host if self._local is not None else os.environ.get(BIND_HOST, ""),
            port=port,
            ssl=certificate.context,
            limits=Limits(body=handler.body_limit, connections=_CONNECTIONS),
        )
        try:
            await self._server.start()
        except ConfigError as error:
            raise ConfigError(f"webhook_port {port} (--webhook-port): {error}") from error
        self.port = self._server.port
        self._log.info("Webhook server started", port=self.port, webhooks=len(options.webhooks))

    async def _stop(self) -> None:
        await self._registered.aclose()
        self.port = 0
        if self._server is not None:
            started = self._runtime.open.is_set()  # otherwise reviews wait for what will not happen
            await self._server.close(self._options.graceful_timeout if started else 0.0)
