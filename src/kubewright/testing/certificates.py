"""A certificate authority for one test run. Keys are EC P-256, certificates are valid for a day, all is PEM."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A private key (PKCS#8) and the certificate for it."""

    key: bytes
    certificate: bytes


class Authority:
    """Issues certificates that hold for servers on this machine and for users of an API server."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "kubewright-test-ca")])
        usage = x509.KeyUsage(
            digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
        )  # fmt: skip
        constraints = x509.BasicConstraints(ca=True, path_length=None)
        unsigned = self._builder(self._name, self._key.public_key())
        unsigned = unsigned.add_extension(constraints, critical=True).add_extension(usage, critical=True)
        self._certificate = unsigned.sign(self._key, hashes.SHA256())

    @property
    def pair(self) -> KeyPair:
        """The authority's own key and certificate; the certificate is what others trust."""
        return KeyPair(_pem(self._key), self._certificate.public_bytes(serialization.Encoding.PEM))

    def server(self, names: Sequence[str], addresses: Sequence[str]) -> KeyPair:
        """A pair for a server that is reached by the DNS `names` and IP `addresses`."""
        alternatives = [
            *(x509.DNSName(name) for name in names),
            *(x509.IPAddress(ipaddress.ip_address(address)) for address in addresses),
        ]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
        return self._issue(subject, x509.SubjectAlternativeName(alternatives), ExtendedKeyUsageOID.SERVER_AUTH)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """A pair that makes its holder `user` in `groups`, as Kubernetes reads CN and O."""
        attributes = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
        attributes.append(x509.NameAttribute(NameOID.COMMON_NAME, user))
        return self._issue(x509.Name(attributes), None, ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, alternatives: x509.SubjectAlternativeName | None, purpose: x509.ObjectIdentifier
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        unsigned = self._builder(subject, key.public_key())
        unsigned = unsigned.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
        if alternatives is not None:
            unsigned = unsigned.add_extension(alternatives, critical=False)
        signed = unsigned.sign(self._key, hashes.SHA256())
        return KeyPair(_pem(key), signed.public_bytes(serialization.Encoding.PEM))

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + timedelta(days=1))
        )


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())
