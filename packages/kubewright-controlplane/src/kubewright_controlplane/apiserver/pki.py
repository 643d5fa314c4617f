"""The server's own certificate authority: for its address, and for the users in its kubeconfigs.

Keys are EC P-256, which take less than a millisecond to generate. Everything is PEM.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
import tempfile
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kubewright.machinery.errors import ConfigError

_LIFETIME: Final = timedelta(days=3650)
_SIGNED_BACKDATED: Final = timedelta(minutes=5)
_LONG: Final = timedelta(hours=8)
"""The end of certificates with at least this lifetime is moved as far as their start."""
_PURPOSES: Final = {
    "any": ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "code signing": ExtendedKeyUsageOID.CODE_SIGNING,
    "email protection": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "s/mime": ExtendedKeyUsageOID.EMAIL_PROTECTION,
    "timestamping": ExtendedKeyUsageOID.TIME_STAMPING,
    "ocsp signing": ExtendedKeyUsageOID.OCSP_SIGNING,
}
"""Usages of CertificateSigningRequests that are extended key usages."""
_BACKDATED: Final = timedelta(hours=1)
"""Certificates are valid from before their creation, because clocks differ."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner can read, completely or not at all. It replaces a symbolic link.

    Creates the folder if needed.
    """
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    Path(temporary).replace(path)


class CertificateAuthority:
    """Signs certificates. It is created, or loaded from a folder."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self._key = key
        self._certificate = certificate

    @classmethod
    def create(cls, name: str = "kubewright-ca") -> CertificateAuthority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            _builder(subject, subject, key)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
            .add_extension(_identifier(key), critical=False)
        )
        return cls(key, builder.sign(key, hashes.SHA256()))

    @classmethod
    def kept_in(cls, folder: Path, *, file: str = "ca", name: str = "kubewright-ca") -> CertificateAuthority:
        """Load the authority in a folder, or create it there. Only its owner can read the key.

        `file` is the name of its two files, without `.key` and `.crt`.
        """
        key_file, certificate_file = folder / f"{file}.key", folder / f"{file}.crt"
        if key_file.exists() and certificate_file.exists():
            key = serialization.load_pem_private_key(key_file.read_bytes(), None)
            if not isinstance(key, ec.EllipticCurvePrivateKey):
                raise ConfigError(
                    f"{key_file} is not an elliptic curve key; delete it and {file}.crt to create new ones"
                )
            return cls(key, x509.load_pem_x509_certificate(certificate_file.read_bytes()))
        made = cls.create(name)
        write_private(certificate_file, made.certificate)
        write_private(key_file, _pem(made._key))
        return made

    @property
    def certificate(self) -> bytes:
        """The CA certificate, with which clients verify the server and the server verifies clients."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue_server(self, addresses: Iterable[str]) -> KeyPair:
        """Issue a certificate for a server at `addresses`: names or IP addresses."""
        return self._issue(
            x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kube-apiserver")]),
            ExtendedKeyUsageOID.SERVER_AUTH,
            [_general_name(address) for address in addresses],
        )

    def issue_client(self, user: str, groups: Iterable[str] = ()) -> KeyPair:
        """Issue a client certificate for `user`, a member of `groups`: common name and organizations."""
        organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        subject = x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, user)])
        return self._issue(subject, ExtendedKeyUsageOID.CLIENT_AUTH, [])

    def sign(self, request: bytes, usages: Collection[str], lifetime: timedelta, now: datetime) -> bytes:
        """Sign a certificate request in PEM, with its subject and names. Returns the certificate in PEM.

        `usages` are those of a CertificateSigningRequest. The certificate is never valid longer than the authority.
        """
        asked = x509.load_pem_x509_csr(request)
        end = now + lifetime - (_SIGNED_BACKDATED if lifetime >= _LONG else timedelta(0))
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            x509.CertificateBuilder()
            .subject_name(asked.subject)
            .issuer_name(self._certificate.subject)
            .public_key(asked.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - _SIGNED_BACKDATED)
            .not_valid_after(min(end, self._certificate.not_valid_after_utc))
            .add_extension(_key_usage(usages), critical=True)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(issuer, critical=False)
        )
        purposes = list(dict.fromkeys(_PURPOSES[each] for each in sorted(usages) if each in _PURPOSES))
        if purposes:
            builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        for each in asked.extensions:
            if isinstance(each.value, x509.SubjectAlternativeName):
                builder = builder.add_extension(each.value, critical=each.critical)
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _issue(self, subject: x509.Name, usage: x509.ObjectIdentifier, names: list[x509.GeneralName]) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = (
            _builder(subject, self._certificate.subject, key)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(_identifier(key), critical=False)
            .add_extension(issuer, critical=False)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), _pem(key))


def _key_usage(usages: Collection[str]) -> x509.KeyUsage:
    agrees = "key agreement" in usages
    return x509.KeyUsage(
        digital_signature="digital signature" in usages or "signing" in usages,
        content_commitment="content commitment" in usages,
        key_encipherment="key encipherment" in usages,
        data_encipherment="data encipherment" in usages,
        key_agreement=agrees,
        key_cert_sign="cert sign" in usages,
        crl_sign="crl sign" in usages,
        encipher_only=agrees and "encipher only" in usages,
        decipher_only=agrees and "decipher only" in usages,
    )


def load_pair(context: ssl.SSLContext, pair: KeyPair) -> None:
    """Load a key pair through a temporary file, because Python's ssl reads keys only from files."""
    with tempfile.TemporaryDirectory(prefix="kubewright-tls-") as folder:
        file = Path(folder, "pair.pem")
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(pair.key + pair.certificate)
        context.load_cert_chain(file)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BACKDATED)
        .not_valid_after(now + _LIFETIME)
    )


def _identifier(key: ec.EllipticCurvePrivateKey) -> x509.SubjectKeyIdentifier:
    """Key identifiers. Strict clients (RFC 5280; Python from 3.13 on) require them in certificates."""
    return x509.SubjectKeyIdentifier.from_public_key(key.public_key())


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)
