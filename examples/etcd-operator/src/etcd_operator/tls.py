"""The Secrets of a cluster with TLS: the authority, and what it issues to members and clients.

The Secret `NAME-ca` holds the authority, with its key. `NAME-client` is for clients, the operator among them, and
`MEMBER-tls` for a member, which uses one certificate for clients and for other members. etcd reads its certificate again
for each connection, but its trusted authorities only when it starts: see `controller/rotation.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from kubewright import Context, ObjectMeta, TerminalError
from kubewright.apis.core.v1 import Secret
from kubewright.certificates import BUNDLE, CERTIFICATE, KEY, Authority, KeyPair, hosts_of, issue, new_authority

from etcd_operator import objects
from etcd_operator.api.v1.etcdcluster import EtcdCluster

ROTATION: Final = "etcd.kubewright.dev/rotate-authority"
"""The value of `spec.tls.rotateAuthority` that the authority was made for."""


@dataclass
class Issuer:
    """Issues the certificates of a cluster, with the authority in a Secret."""

    ctx: Context[EtcdCluster]
    cluster: EtcdCluster
    secret: Secret
    authority: Authority

    @property
    def is_asked_to_rotate(self) -> bool:
        return self.secret.metadata.annotations.get(ROTATION, "") != self.cluster.spec.tls.rotate_authority

    async def keep(self, name: str, hosts: Sequence[str] = ()) -> None:
        """Create the Secret of a member, or without `hosts` of the clients, or renew what is due in it."""
        now, tls = self.ctx.clock.now(), self.cluster.spec.tls
        current = await self.ctx.client.uncached.get_or_none(Secret, name, namespace=self.secret.metadata.namespace)
        held = current.data if current is not None else {}
        pair = KeyPair(held.get(CERTIFICATE, b""), held.get(KEY, b""))
        is_new = is_due(pair, self.authority, hosts, now)
        if is_new:
            pair = self.issue(self.authority.signer, now, timedelta(days=tls.certificate_days), hosts)
        data = {BUNDLE: self.authority.bundle, CERTIFICATE: pair.certificate, KEY: pair.key}
        if data != held:
            await self.ctx.apply(_secret(self.cluster, name, data))
        if is_new and current is not None:
            self.ctx.events.normal(
                self.cluster, "CertificateRenewed", f"The certificate in Secret {name!r} was renewed"
            )

    def issue(self, signer: KeyPair, now: datetime, lifetime: timedelta, hosts: Sequence[str] = ()) -> KeyPair:
        """Return a certificate for a member, which is a client of the others; without `hosts`, for a client."""
        if not hosts:
            return issue(signer, "etcd client", now, lifetime, uses=["client"])
        return issue(signer, "etcd", now, lifetime, hosts=hosts, uses=["server", "client"])

    def new_authority(self) -> Authority:
        """Return the authority with one that is to replace it."""
        lifetime = timedelta(days=self.cluster.spec.tls.authority_days)
        return self.authority.begun(_name(self.cluster), self.ctx.clock.now(), lifetime)

    async def store(self, authority: Authority, *, rotation: str | None = None) -> None:
        """Write the next step of a rotation. Raises Conflict if another process has changed the Secret."""
        self.secret.data = authority.data
        if rotation is not None:
            self.secret.metadata.annotations[ROTATION] = rotation
        await self.ctx.client.update(self.secret)


async def issuer_of(ctx: Context[EtcdCluster], cluster: EtcdCluster) -> Issuer:
    """Return the issuer of a cluster. Its authority is made once.

    If its Secret was deleted, the certificates that are in use stay, and another authority takes over step by step.
    """
    name, namespace, tls = f"{cluster.metadata.name}-ca", cluster.metadata.namespace, cluster.spec.tls
    secret = await ctx.client.uncached.get_or_none(Secret, name, namespace=namespace)
    if secret is None:
        now, lifetime = ctx.clock.now(), timedelta(days=tls.authority_days)
        clients = await ctx.client.uncached.get_or_none(Secret, f"{cluster.metadata.name}-client", namespace=namespace)
        if clients is not None and clients.data.get(BUNDLE):
            made = Authority(KeyPair(clients.data[BUNDLE], b"")).begun(_name(cluster), now, lifetime)
            note = f"Secret {name!r} is gone: another authority replaces it, and members restart one after the other"
            ctx.events.warning(cluster, "AuthorityLost", note)
        else:
            made = Authority(new_authority(_name(cluster), now, lifetime))
        wanted = _secret(cluster, name, made.data)
        wanted.metadata.annotations = {ROTATION: tls.rotate_authority}
        secret = await ctx.apply(wanted, create_only=True)
    try:
        return Issuer(ctx, cluster, secret, Authority.read(secret.data))
    except ValueError as error:
        raise TerminalError(
            f"Secret {name!r}: {error}; write it back, or delete it to let another authority take over"
        ) from error


def is_due(pair: KeyPair, authority: Authority, hosts: Sequence[str], now: datetime) -> bool:
    """Return whether a certificate has to be replaced: it has aged, is for other hosts, or has another signer."""
    try:
        found = pair.parsed
    except ValueError:
        return True
    return pair.has_aged(now) or hosts_of(found) != set(hosts) or not authority.has_signed(found)


def _name(cluster: EtcdCluster) -> str:
    return f"{cluster.metadata.name} etcd"


def _secret(cluster: EtcdCluster, name: str, data: dict[str, bytes]) -> Secret:
    labels = {objects.CLUSTER: cluster.metadata.name}
    return Secret(
        metadata=ObjectMeta(name=name, namespace=cluster.metadata.namespace, labels=labels),
        data=data,
        type="kubernetes.io/tls",
    )
