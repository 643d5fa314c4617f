"""Keeps the certificate of a webhook server, the Secret that has it, and the CA that API servers trust up to date.

Every replica runs a keeper. No replica leads: each step follows from the Secret, and is an update of the version that
was read, so one replica takes it and the others see it. A replica that is killed between two steps leaves nothing to
repair.

A new certificate is used only after API servers trust its CA: the CA is injected first, and then they get a few seconds
to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import Final

from kubewright._runtime.clock import monotonic
from kubewright._runtime.log import get_logger
from kubewright.apis.core.v1 import Secret
from kubewright.client._client import Client
from kubewright.http.tls import ReloadableContext
from kubewright.machinery.errors import AlreadyExists, ConfigError, Conflict, Forbidden, KubewrightError
from kubewright.models._meta import ObjectMeta
from kubewright.webhooks._certificates import Certificates
from kubewright.webhooks._deployment import WebhookObjects
from kubewright.webhooks._injection import Injection, watching
from kubewright.webhooks._provider import ServerCertificate

SERVICE: Final = "kubewright.dev/webhook-service"
"""The annotation of the Secret that names the Service that it is for. It marks the Secret as made by a manager."""
_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
_TYPE: Final = "kubernetes.io/tls"

_CHECKED_EACH: Final = 3600.0
"""Seconds between two looks at the dates, and at objects whose changes a watch did not report."""
_RETRIED_EACH: Final = 30.0
"""Seconds between two attempts to inject the CA."""
_NOTICED_WITHIN: Final = 10.0
"""Seconds within which every API server notices an injected CA."""
_PAUSE: Final = 1.0
"""Seconds between two looks at least, and before the first retry."""
_LONGEST_PAUSE: Final = 60.0


class CertificateKeeper:
    """The certificate of one replica while `running` is entered."""

    def __init__(self, client: Client, objects: WebhookObjects, namespace: str, hosts: Sequence[str]) -> None:
        self._client = client
        self._objects = objects
        self._namespace = namespace
        service = f"{objects.service}.{namespace}.svc"
        self._hosts = tuple(dict.fromkeys([service, f"{service}.cluster.local", *hosts]))
        self._injection = Injection(client, objects, namespace)
        self._log = get_logger("kubewright.webhook.certificate").bind(secret=f"{namespace}/{objects.secret}")
        self._current: Certificates | None = None
        self._context: ReloadableContext | None = None
        self._obstacles = ["the CA has not been injected yet"]
        """Why API servers may not trust the certificate."""
        self._ready = False
        """Whether API servers trusted the certificate once."""
        self._trusted = (b"", 0.0)
        """The bundle that this process found injected everywhere, and since when."""
        self._wake = asyncio.Event()

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[ServerCertificate]:
        """Yield the certificate, and keep it. Raises ConfigError if the Secret cannot be used."""
        self._current = await self._read_or_create()
        self._context = ReloadableContext(self._current.certificate, self._current.key)
        keeping = asyncio.create_task(self._keep(), name="webhook certificate")
        try:
            yield ServerCertificate(self._context.context, self._check, self._expirations)
        finally:
            keeping.cancel()
            await asyncio.wait({keeping})

    def _check(self) -> None:
        """Fail until API servers trust the certificate. Later obstacles are logged only, because API servers do not
        call replicas that are not ready, and the obstacle may concern one webhook of many.
        """
        if not self._ready:
            raise ConfigError(f"API servers do not trust the webhooks: {'; '.join(self._obstacles)}")

    def _expirations(self) -> Mapping[str, datetime]:
        assert self._current is not None
        return self._current.expirations

    # ---- the Secret

    async def _read_or_create(self) -> Certificates:
        try:
            while True:
                secret = await self._stored()
                if secret is not None and secret.data:
                    return self._read(secret)
                with suppress(AlreadyExists, Conflict):  # another replica was faster
                    return await self._store(secret, Certificates.made(self._hosts, self._client.clock.now()))
        except Forbidden as error:
            raise ConfigError(
                f"Secret {self._described} cannot be used: {error}; apply the role that "
                f"Manager.webhook_certificate_rules describes, in namespace {self._namespace}"
            ) from error

    async def _stored(self) -> Secret | None:
        return await self._client.get_or_none(Secret, self._objects.secret, namespace=self._namespace)

    def _read(self, secret: Secret) -> Certificates:
        """Raises ConfigError for a Secret of another program, and for data that cannot be used."""
        service = secret.metadata.annotations.get(SERVICE)
        if service != self._objects.service:
            owner = f"is for Service {service}" if service else "was not made by a manager"
            raise ConfigError(
                f"Secret {self._described} {owner}, and is left as it is; to use its certificate, mount it and name "
                f"the folder with --webhook-cert-path; otherwise delete it, or choose another "
                f"ManagedCertificate(prefix=...)"
            )
        try:
            return Certificates.read(secret.data)
        except ValueError as error:
            raise ConfigError(
                f"Secret {self._described} has no usable certificates: {error}; delete it, and a new one is made"
            ) from error

    async def _store(self, secret: Secret | None, certificates: Certificates) -> Certificates:
        """Create the Secret, or replace the data of the version that was read. Raises AlreadyExists, Conflict."""
        if secret is None:
            metadata = ObjectMeta(
                name=self._objects.secret,
                namespace=self._namespace,
                annotations={SERVICE: self._objects.service},
                labels={_MANAGED_BY: "kubewright"},
            )
            await self._client.create(Secret(metadata=metadata, type=_TYPE, data=certificates.data))
            self._log.info("Webhook certificate created")
        else:
            secret.data = {**secret.data, **certificates.data}
            secret.metadata.annotations[SERVICE] = self._objects.service
            await self._client.update(secret)
            self._log.info("Webhook certificate renewed")
        return certificates

    @property
    def _described(self) -> str:
        return f"{self._namespace}/{self._objects.secret}"

    # ---- keeping it up to date

    async def _keep(self) -> None:
        pause = _PAUSE
        secret = watching(self._client, Secret, self._objects.secret, self._namespace, self._wake.set)
        async with secret, self._injection.watching(self._wake.set):
            while True:
                self._wake.clear()
                try:
                    until_next = await self._look()
                    pause = _PAUSE
                except Exception as error:  # noqa: BLE001 - whatever it is, the certificate must not expire
                    unexpected = None if isinstance(error, KubewrightError) else error
                    self._log.warning("Webhook certificate not checked", error=str(error), exc_info=unexpected)
                    until_next = pause = min(pause * 2, _LONGEST_PAUSE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(until_next):
                        await self._wake.wait()
                await asyncio.sleep(_PAUSE)

    async def _look(self) -> float:
        """Take the steps that are due. Returns the seconds until the next look."""
        while True:
            secret = await self._stored()
            certificates = await self._renew_deleted() if secret is None else self._read(secret)
            self._note(await self._injection.inject(certificates.bundle))
            self._use(certificates)
            left = self._seconds_until_trusted(certificates.bundle)
            advanced = certificates.advanced(self._hosts, self._client.clock.now(), trusted=left <= 0)
            if secret is None or advanced == certificates:
                return _RETRIED_EACH if self._obstacles else left if left > 0 else _CHECKED_EACH
            with suppress(Conflict):  # another replica was faster
                await self._store(secret, advanced)

    async def _renew_deleted(self) -> Certificates:
        """Create the Secret again, with a new CA. Clients trust the old one, too, while it is in use."""
        assert self._current is not None
        renewed = self._current.renewed(self._hosts, self._client.clock.now())
        try:
            return await self._store(None, renewed)
        except AlreadyExists:
            secret = await self._stored()
            if secret is None:
                raise
            return self._read(secret)

    def _note(self, obstacles: list[str]) -> None:
        if obstacles and obstacles != self._obstacles:
            self._log.warning("Webhook CA not injected", reason="; ".join(obstacles))
        self._obstacles = obstacles
        self._ready = self._ready or not obstacles

    def _use(self, certificates: Certificates) -> None:
        assert self._context is not None
        before, self._current = self._current, certificates
        if before is None or before.certificate != certificates.certificate:
            self._context.load(certificates.certificate, certificates.key)
            self._log.info("Webhook certificate loaded")

    def _seconds_until_trusted(self, bundle: bytes) -> float:
        """Return how long it takes at most until all API servers trust `bundle`."""
        if self._obstacles:
            self._trusted = (b"", 0.0)
            return _NOTICED_WITHIN
        if self._trusted[0] != bundle:
            self._trusted = (bundle, monotonic())
        return self._trusted[1] + _NOTICED_WITHIN - monotonic()
