"""Certificates in PEM: an authority, the certificates that it issues, and its replacement by another authority.

`new_authority` and `issue` make certificates. An `Authority` is what an operator keeps in a Secret to issue
certificates for years. It is replaced in steps, so that its users can follow each one before the next:

    1. `begun`       A new authority exists, and is in `bundle`. The old one still signs.
    2. `switched`    Everything trusts the bundle: the new authority signs. All certificates are issued again.
    3. `finished`    Everything uses the new certificates: the old authority leaves the bundle.

Which step comes next follows from the data of the Secret alone, so another process can take it after one was killed.

Needs the package `cryptography`: `pip install 'kubewright[tls]'`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

BUNDLE: Final = "ca.crt"
"""The key of a Secret with the certificates that are trusted."""
CERTIFICATE: Final = "tls.crt"
"""The key of a Secret with a certificate."""
KEY: Final = "tls.key"
"""The key of a Secret with a private key."""
BACKDATED: Final = timedelta(hours=1)
"""Certificates are valid from this long before they are made, because clocks differ."""

Use: TypeAlias = Literal["server", "client"]
"""What a certificate proves."""


class KeyPair(msgspec.Struct, frozen=True):
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes

    @property
    def parsed(self) -> x509.Certificate:
        """The certificate; of several, the first. Raises ValueError if it is not PEM."""
        return read_certificates(self.certificate)[0]

    def has_aged(self, now: datetime) -> bool:
        """Return whether two thirds of its time are over."""
        begin, end = self.parsed.not_valid_before_utc, self.parsed.not_valid_after_utc
        return now >= begin + (end - begin) * 2 / 3


class Authority(msgspec.Struct, frozen=True):
    """A certificate authority with the one that replaces it, or the one that it has replaced."""

    current: KeyPair
    """Signs. Its key is empty if it was lost; then `following` signs."""
    following: KeyPair | None = None
    """Replaces the current one when everything trusts both."""
    previous: bytes = b""
    """Certificates of what signed before, which are still trusted."""
    since: datetime | None = None
    """When the last step was taken; None if there was none."""

    @classmethod
    def read(cls, data: Mapping[str, bytes]) -> Authority:
        """Read the data of a Secret. Raises ValueError if a certificate is missing or is not PEM."""
        if not data.get(CERTIFICATE):
            raise ValueError(f"{CERTIFICATE} is missing")
        following = KeyPair(data["next.crt"], data.get("next.key", b"")) if data.get("next.crt") else None
        since = datetime.fromisoformat(data["since"].decode()) if data.get("since") else None
        found = cls(KeyPair(data[CERTIFICATE], data.get(KEY, b"")), following, data.get("previous.crt", b""), since)
        read_certificates(found.bundle)
        return found

    @property
    def data(self) -> dict[str, bytes]:
        """The data of a Secret, which Kubernetes' type kubernetes.io/tls accepts."""
        data = {BUNDLE: self.bundle, CERTIFICATE: self.current.certificate, KEY: self.current.key}
        if self.following is not None:
            data |= {"next.crt": self.following.certificate, "next.key": self.following.key}
        if self.previous:
            data["previous.crt"] = self.previous
        if self.since is not None:
            data["since"] = self.since.isoformat().encode()
        return data

    @property
    def bundle(self) -> bytes:
        """The certificates that everything has to trust, the newest first. `switched` does not change it."""
        following = self.following.certificate if self.following is not None else b""
        return following + self.current.certificate + self.previous

    @property
    def signer(self) -> KeyPair:
        """What signs new certificates."""
        return self.following if self.following is not None and not self.current.key else self.current

    def has_signed(self, certificate: x509.Certificate) -> bool:
        """Return whether a certificate is signed by the current authority, or by what signs in its place."""
        signers = read_certificates(self.current.certificate + self.signer.certificate)
        return any(is_signed_by(certificate, each) for each in signers)

    def begun(self, name: str, now: datetime, lifetime: timedelta) -> Authority:
        """Return this authority with a new one that everything has to trust next."""
        return Authority(self.current, new_authority(name, now, lifetime), since=now)

    def switched(self, now: datetime) -> Authority:
        """Return the new authority, with this one still trusted."""
        assert self.following is not None, "no new authority has begun"
        return Authority(self.following, None, self.current.certificate, now)

    def finished(self, now: datetime) -> Authority:
        """Return the new authority alone."""
        return Authority(self.current, since=now)


def new_authority(name: str, now: datetime, lifetime: timedelta) -> KeyPair:
    """Return a new authority, which signs itself."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key.public_key(), now, now + lifetime)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def issue(
    authority: KeyPair,
    name: str,
    now: datetime,
    lifetime: timedelta,
    *,
    hosts: Sequence[str] = (),
    uses: Sequence[Use] = ("server",),
) -> KeyPair:
    """Return a new certificate for these names and IP addresses. It ends with its authority at the latest.

    Raises ValueError if the key of the authority is not one that `new_authority` makes.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID

    purposes = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}
    ca, key = authority.parsed, ec.generate_private_key(ec.SECP256R1())
    end = min(now + lifetime, ca.not_valid_after_utc)
    builder = (
        _builder(_name(name), ca.subject, key.public_key(), now, end)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([purposes[each] for each in uses]), critical=False)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(each) for each in hosts])
        builder = builder.add_extension(names, critical=False)
    return _signed(builder, key, read_key(authority.key))


def read_certificates(pem: bytes) -> list[x509.Certificate]:
    """Read certificates in PEM. Raises ValueError."""
    from cryptography import x509

    return x509.load_pem_x509_certificates(pem)


def read_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    """Read the key of a KeyPair. Raises ValueError for any other kind of key, and for an encrypted one."""
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


def to_pem(certificates: Sequence[x509.Certificate]) -> bytes:
    """Return certificates in PEM."""
    from cryptography.hazmat.primitives.serialization import Encoding

    return b"".join(each.public_bytes(Encoding.PEM) for each in certificates)


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
        .not_valid_before(now - BACKDATED)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> KeyPair:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization

    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    made = builder.add_extension(identifier, critical=False).sign(signer, hashes.SHA256())
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return KeyPair(to_pem([made]), private)


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

    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common[:64])])


def _general_name(host: str) -> x509.GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)
