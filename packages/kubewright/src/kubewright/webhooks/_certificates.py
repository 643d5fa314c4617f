"""A certificate authority for one server, the certificate that it signs, and when each is replaced.

The steps of a rotation are separate, so that clients and servers can take over each one before the next:

    1. A new CA is made long before the old one ends. Clients trust both. The server certificate stays.
    2. When all clients trust the new CA, it signs a new server certificate.
    3. When all servers use the new certificate for long enough, clients stop trusting the old CA.

Which step is due follows from the certificates alone, so any process can take it, also after another one was killed.

Lifetimes follow open-policy-agent/cert-controller: ten years and one, replaced 90 days ahead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from kubewright.certificates import (
    BACKDATED,
    BUNDLE,
    CERTIFICATE,
    KEY,
    KeyPair,
    hosts_of,
    is_signed_by,
    issue,
    new_authority,
    read_certificates,
    read_key,
    to_pem,
)
from kubewright.machinery.errors import ConfigError

_CA_LIFETIME: Final = timedelta(days=3650)
_SERVER_LIFETIME: Final = timedelta(days=365)
_AHEAD: Final = timedelta(days=90)
"""Before the end of a certificate, in which it is replaced."""
_TRUSTED_AFTER: Final = timedelta(days=1)
"""For which clients trust an old CA after the first server certificate of the new one."""
_LAST_DAY: Final = timedelta(days=1)
"""Before the end of a server certificate, in which it is replaced even if not all clients trust the new CA."""

CA_KEY: Final = "ca.key"


class Certificates(msgspec.Struct, frozen=True):
    """All in PEM."""

    bundle: bytes
    """The CAs that clients trust, the newest first."""
    ca_key: bytes
    """Of the newest CA."""
    certificate: bytes
    """Of the server."""
    key: bytes

    @classmethod
    def made(cls, hosts: Sequence[str], now: datetime) -> Certificates:
        """Make a CA, and a certificate for a server with these names and IP addresses. The first is the main name.

        Raises ConfigError if `cryptography` is not installed.
        """
        _check_installed()
        bundle, ca_key = _new_ca(hosts[0], now)
        return _issued(cls(bundle, ca_key, b"", b""), hosts, now)

    @classmethod
    def read(cls, data: Mapping[str, bytes]) -> Certificates:
        """Read the data of a Secret. Raises ValueError, which says what is wrong."""
        _check_installed()
        missing = [each for each in (BUNDLE, CA_KEY, CERTIFICATE, KEY) if not data.get(each)]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing")
        found = cls(data[BUNDLE], data[CA_KEY], data[CERTIFICATE], data[KEY])
        _check(found)
        return found

    @property
    def data(self) -> dict[str, bytes]:
        """The data of a Secret, which Kubernetes' type kubernetes.io/tls accepts."""
        return {BUNDLE: self.bundle, CA_KEY: self.ca_key, CERTIFICATE: self.certificate, KEY: self.key}

    @property
    def expirations(self) -> dict[str, datetime]:
        """When the certificate of the server ends, and the CA that signed it."""
        server, authorities = read_certificates(self.certificate)[0], read_certificates(self.bundle)
        ca = next(each for each in authorities if is_signed_by(server, each))
        return {"ca": ca.not_valid_after_utc, "server": server.not_valid_after_utc}

    def advanced(self, hosts: Sequence[str], now: datetime, *, trusted: bool) -> Certificates:
        """Return the certificates after the next step that is due; the same if none is.

        `trusted`: all clients trust the whole bundle.
        """
        authorities, server = read_certificates(self.bundle), read_certificates(self.certificate)[0]
        if authorities[0].not_valid_after_utc - now <= _AHEAD:
            bundle, ca_key = _new_ca(hosts[0], now)
            kept = [each for each in authorities if each.not_valid_after_utc > now]
            return replace(self, bundle=bundle + to_pem(kept), ca_key=ca_key)
        left = server.not_valid_after_utc - now
        if not is_signed_by(server, authorities[0]):
            return _issued(self, hosts, now) if trusted or left <= _LAST_DAY else self
        if left <= _AHEAD or hosts_of(server) != set(hosts):
            return _issued(self, hosts, now)
        if len(authorities) > 1 and now >= server.not_valid_before_utc + BACKDATED + _TRUSTED_AFTER:
            return replace(self, bundle=to_pem(authorities[:1]))
        return self

    def renewed(self, hosts: Sequence[str], now: datetime) -> Certificates:
        """Return certificates with a new CA, as in the first step of a rotation."""
        bundle, ca_key = _new_ca(hosts[0], now)
        return replace(self, bundle=bundle + self.bundle, ca_key=ca_key)


def _check_installed() -> None:
    if find_spec("cryptography") is None:
        raise ConfigError(
            "webhooks need a certificate: mount one and name its folder with --webhook-cert-path, or install the "
            "package that makes one: pip install 'kubewright[tls]'"
        )


def _check(found: Certificates) -> None:
    """Raise ValueError if the parts cannot be read, or do not belong together."""
    parts = {BUNDLE: found.bundle, CERTIFICATE: found.certificate, CA_KEY: found.ca_key, KEY: found.key}
    read: dict[str, Any] = {}
    for name, pem in parts.items():
        try:
            read[name] = read_key(pem) if name in (CA_KEY, KEY) else read_certificates(pem)
        except ValueError as error:
            raise ValueError(f"{name} is not PEM of a {'key' if name in (CA_KEY, KEY) else 'certificate'}") from error
    for certificate, key in ((BUNDLE, CA_KEY), (CERTIFICATE, KEY)):
        if read[certificate][0].public_key() != read[key].public_key():
            raise ValueError(f"{key} is not the key of {certificate}")
    if not any(is_signed_by(read[CERTIFICATE][0], each) for each in read[BUNDLE]):
        raise ValueError(f"{CERTIFICATE} is not signed by a CA of {BUNDLE}")


def _new_ca(name: str, now: datetime) -> tuple[bytes, bytes]:
    """Return a CA and its key."""
    made = new_authority(f"{name[:50]} CA", now, _CA_LIFETIME)
    return made.certificate, made.key


def _issued(found: Certificates, hosts: Sequence[str], now: datetime) -> Certificates:
    """Return the same CA with a new server certificate."""
    made = issue(KeyPair(found.bundle, found.ca_key), hosts[0], now, _SERVER_LIFETIME, hosts=hosts)
    return replace(found, certificate=made.certificate, key=made.key)
