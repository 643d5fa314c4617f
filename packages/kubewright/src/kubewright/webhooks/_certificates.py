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
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final

from kubewright.machinery.errors import ConfigError

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

_CA_LIFETIME: Final = timedelta(days=3650)
_SERVER_LIFETIME: Final = timedelta(days=365)
_AHEAD: Final = timedelta(days=90)
"""Before the end of a certificate, in which it is replaced."""
_BACKDATED: Final = timedelta(hours=1)
"""How much the clocks of clients may be behind."""
_TRUSTED_AFTER: Final = timedelta(days=1)
"""For which clients trust an old CA after the first server certificate of the new one."""
_LAST_DAY: Final = timedelta(days=1)
"""Before the end of a server certificate, in which it is replaced even if not all clients trust the new CA."""

BUNDLE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


@dataclass(frozen=True, slots=True)
class Certificates:
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
            return replace(self, bundle=bundle + _pem(kept), ca_key=ca_key)
        left = server.not_valid_after_utc - now
        if not is_signed_by(server, authorities[0]):
            return _issued(self, hosts, now) if trusted or left <= _LAST_DAY else self
        if left <= _AHEAD or hosts_of(server) != set(hosts):
            return _issued(self, hosts, now)
        if len(authorities) > 1 and now >= server.not_valid_before_utc + _BACKDATED + _TRUSTED_AFTER:
            return replace(self, bundle=_pem(authorities[:1]))
        return self

    def renewed(self, hosts: Sequence[str], now: datetime) -> Certificates:
        """Return certificates with a new CA, as in the first step of a rotation."""
        bundle, ca_key = _new_ca(hosts[0], now)
        return replace(self, bundle=bundle + self.bundle, ca_key=ca_key)


def _check_installed() -> None:
    try:
        import cryptography  # noqa: F401 - looked for
    except ImportError as error:
        raise ConfigError(
            "webhooks need a certificate: mount one and name its folder with --webhook-cert-path, or install the "
            "package that makes one: pip install 'kubewright[tls]'"
        ) from error


def _check(found: Certificates) -> None:
    """Raise ValueError if the parts cannot be read, or do not belong together."""
    parts = {BUNDLE: found.bundle, CERTIFICATE: found.certificate, CA_KEY: found.ca_key, KEY: found.key}
    read: dict[str, Any] = {}
    for name, pem in parts.items():
        try:
            read[name] = _private(pem) if name in (CA_KEY, KEY) else read_certificates(pem)
        except ValueError as error:
            raise ValueError(f"{name} is not PEM of a {'key' if name in (CA_KEY, KEY) else 'certificate'}") from error
    for certificate, key in ((BUNDLE, CA_KEY), (CERTIFICATE, KEY)):
        if read[certificate][0].public_key() != read[key].public_key():
            raise ValueError(f"{key} is not the key of {certificate}")
    if not any(is_signed_by(read[CERTIFICATE][0], each) for each in read[BUNDLE]):
        raise ValueError(f"{CERTIFICATE} is not signed by a CA of {BUNDLE}")


def _new_ca(name: str, now: datetime) -> tuple[bytes, bytes]:
    """Return a CA and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"{name[:50]} CA")
    builder = (
        _builder(subject, subject, key.public_key(), now, now + _CA_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return _pem([builder.sign(key, hashes.SHA256())]), _private_pem(key)


def _issued(found: Certificates, hosts: Sequence[str], now: datetime) -> Certificates:
    """Return the same CA with a new server certificate."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    ca, ca_key = read_certificates(found.bundle)[0], _private(found.ca_key)
    key = ec.generate_private_key(ec.SECP256R1())
    end = min(now + _SERVER_LIFETIME, ca.not_valid_after_utc)
    builder = (
        _builder(_name(hosts[0][:64]), ca.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(each) for each in hosts]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return replace(found, certificate=_pem([builder.sign(ca_key, hashes.SHA256())]), key=_private_pem(key))


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, end: datetime
) -> x509.CertificateBuilder:
    from cryptography import x509

    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    from cryptography import x509

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common)])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def hosts_of(certificate: x509.Certificate) -> set[str]:
    """Return the names and addresses of a server."""
    from cryptography import x509

    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return set()
    return {str(each.value) for each in names}


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Return whether `ca` signed the certificate itself, without another one between them."""
    from cryptography.exceptions import InvalidSignature

    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """Read certificates in PEM. Raises ValueError."""
    from cryptography import x509

    return x509.load_pem_x509_certificates(pem)


def _private(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Raises ValueError for anything but a key as `Certificates.made` makes it."""
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(pem, None)
    except (TypeError, UnsupportedAlgorithm) as error:  # encrypted
        raise ValueError(str(error)) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")
    return key


def _pem(certificates: Sequence[x509.Certificate]) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    pem = serialization.Encoding.PEM
    return key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
