"""The rotation of a cluster's authority, while members and clients verify each other all the time.

    1. Another authority is made. Members and clients get both to trust, and `members.roll` restarts one member after the
       other, because etcd reads its trusted authorities only when it starts.
    2. When each member accepts a client of the new authority, the new one signs: all certificates are issued again.
    3. When each member shows a certificate of the new authority, the old one is no longer trusted, and the members are
       restarted again.

Steps 2 and 3 wait for `spec.tls.overlapSeconds`, in which clients read their Secret again. The step is in the Secret of
the authority, and is written with its resource version: a killed operator continues, and a late one gets a Conflict.
"""

from datetime import timedelta

from kubewright.certificates import KeyPair

from etcd_operator import objects
from etcd_operator.controller.members import Progress, Work, replace_pod
from etcd_operator.etcd import Credentials, Etcd, Refused, Unreachable
from etcd_operator.tls import Issuer
from etcd_operator.view import Seen

SOON = timedelta(seconds=10)
"""A wait that is shorter is shown as progress, so that its end is noticed."""


async def renew(work: Work) -> Progress | None:
    """Renew the certificates of all members in time, and take the next step of a rotation."""
    if work.issuer is None:
        return None
    for seen in work.view.members:
        await work.issuer.keep(f"{seen.name}-tls", objects.hosts_for(work.cluster, seen.name, seen.address))
    return await rotate(work, work.issuer) if work.view.all_healthy() else None


async def rotate(work: Work, issuer: Issuer) -> Progress | None:
    """Take the next step of a rotation, if one is due and all members have followed the last one."""
    ca = issuer.authority
    if ca.following is None and not ca.previous:
        if not ca.current.has_aged(work.now) and not issuer.is_asked_to_rotate:
            return None
        await issuer.store(issuer.new_authority(), rotation=work.cluster.spec.tls.rotate_authority)
        return stepped(work, "AuthorityRotating", "A new authority is trusted in addition to the old one")
    left = timedelta(seconds=work.cluster.spec.tls.overlap_seconds) - (work.now - (ca.since or work.now))
    if left > timedelta(0):
        return None if left > SOON else Progress("RotatingAuthority", "clients read what to trust")
    newest, trusted = (ca.following, ca.bundle) if ca.following else (ca.current, ca.current.certificate)
    probe = issuer.issue(newest, work.now, timedelta(hours=1))
    for seen in sorted(work.view.members, key=lambda it: it.leads):
        if not await accepts(work, seen, probe, trusted):
            return await replace_pod(work, seen, "it does not use the new authority yet")
    if ca.following is not None:
        await issuer.store(ca.switched(work.now))
        return stepped(work, "CertificatesReissued", "The new authority signs all certificates")
    await issuer.store(ca.finished(work.now))
    return stepped(work, "AuthorityRotated", "The old authority is no longer trusted")


async def accepts(work: Work, seen: Seen, probe: KeyPair, trusted: bytes) -> bool:
    """Return whether a client with this certificate, that trusts only these, can talk to a member."""
    credentials = Credentials(trusted, probe.certificate, probe.key, objects.host_for(work.cluster))
    async with Etcd(objects.url(work.cluster, seen.address, objects.CLIENT_PORT), credentials) as etcd:
        try:
            await etcd.status()
        except (Unreachable, Refused):
            return False
    return True


def stepped(work: Work, reason: str, note: str) -> Progress:
    work.event(reason, note)
    return Progress("RotatingAuthority", note)
