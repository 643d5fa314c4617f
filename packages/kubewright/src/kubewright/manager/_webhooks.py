"""The webhook server of one run of a manager.

It starts before the caches, because their lists may need its conversions, and on every replica, leader or not. Reviews
wait until the caches are complete and the resources are open. At the stop, it closes before them, and reviews that run
finish first.

Follows controller-runtime's pkg/webhook and the order of its pkg/manager.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Final

from kubewright._runtime.log import get_logger
from kubewright.cache._cache import Cache
from kubewright.cache._client import CachedClient
from kubewright.client._client import Client
from kubewright.http.request_parser import Limits
from kubewright.http.server import Server
from kubewright.machinery.errors import ConfigError
from kubewright.manager._certificates import Certificate, ServerCertificate, server_context
from kubewright.manager._metrics import Metrics
from kubewright.manager._options import ManagerOptions
from kubewright.manager._serving import BIND_HOST
from kubewright.webhooks._client import webhook_client
from kubewright.webhooks._declaration import AdmissionWebhook
from kubewright.webhooks._serving import Surroundings, WebhookHandler

_CONNECTIONS: Final = 4096
"""Far more than the requests that an API server handles at a time, each with a connection of its own."""


class WebhookServer:
    """Serves the webhooks of a manager while `running` is entered."""

    def __init__(self, options: ManagerOptions, metrics: Metrics) -> None:
        self.port = 0
        """The port that it listens on; 0 while it does not."""
        self.ca_bundle = b""
        """The certificates, in PEM, by which clients recognize it; empty if others distribute them."""
        self._options = options
        self._metrics = metrics
        self._surroundings = Surroundings()
        self._server: Server | None = None
        self._log = get_logger("kubewright.manager.webhooks")

    @asynccontextmanager
    async def running(self, client: Client) -> AsyncGenerator[None]:
        """Serve while the block runs. Raises ConfigError without a certificate, and if the port is not available."""
        async with self._certificate(client) as certificate:
            self.ca_bundle = certificate.ca_bundle
            await self._start(certificate)
            try:
                yield
            finally:
                await self._stop()

    @asynccontextmanager
    async def reviewing(self, client: Client, cache: Cache, resource: object) -> AsyncGenerator[None]:
        """Answer reviews while the block runs, then let reviews that run finish and stop the server."""

        def client_of(webhook: AdmissionWebhook, report: Callable[[str], None]) -> CachedClient:
            return webhook_client(client, cache, webhook.rbac_rules(), report)

        self._surroundings.client_of = client_of
        self._surroundings.resource = resource
        self._surroundings.open.set()
        try:
            yield
        finally:
            await self._stop()

    @asynccontextmanager
    async def _certificate(self, client: Client) -> AsyncGenerator[ServerCertificate]:
        given = self._options.webhook_certificate
        if given is None:
            raise ConfigError(
                "the webhooks have no certificate: mount one and name its folder with --webhook-cert-path, or give the "
                "Manager a webhook_certificate; to run without webhooks, use --webhook-port=-1"
            )
        if isinstance(given, Certificate):
            yield ServerCertificate(server_context(given, self._metrics.certificate_read, "webhook"))
            return
        async with given.provide(client, self._options.webhooks) as provided:
            yield provided

    async def _start(self, certificate: ServerCertificate) -> None:
        options = self._options
        port = options.webhook_port or 0
        tracing = None
        if options.tracer_provider is not None:
            from kubewright.webhooks._tracing import WebhookTracing

            tracing = WebhookTracing(options.tracer_provider)
        handler = WebhookHandler(options.webhooks, self._surroundings, observer=self._metrics.webhook, tracing=tracing)
        self._server = Server(
            handler.handle,
            host=os.environ.get(BIND_HOST, ""),
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
        self.port = 0
        if self._server is not None:
            started = self._surroundings.open.is_set()  # otherwise reviews wait for what will not happen
            await self._server.close(self._options.graceful_timeout if started else 0.0)
