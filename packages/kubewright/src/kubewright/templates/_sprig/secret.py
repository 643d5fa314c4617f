"""Sprig's functions of hashes, keys and certificates. They load cryptography when they are called."""

from __future__ import annotations

import base64
import hashlib
import hmac
import ipaddress
import re
import secrets
import zlib
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kubewright.templates._format import text_of
from kubewright.templates._functions import Function, f
from kubewright.templates._sprig.encodings import base64_bytes
from kubewright.templates._strconv import decoded, encoded
from kubewright.templates._values import FunctionError, Object

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import CertificateIssuerPrivateKeyTypes

_SLOW: Final = 5_000
"""Steps of a function that computes for some milliseconds."""
_RANDOM_LIMIT: Final = 1_000_000
_EXTRA: Final = "install 'kubewright[templates]'"
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----\s.*?-----END \1-----", re.DOTALL)
_SEED: Final = b"com.lyndir.masterpassword"
_TEMPLATES: Final = {
    "maximum": "anoxxxxxxxxxxxxxxxxx axxxxxxxxxxxxxxxxxno",
    "long": (
        "CvcvnoCvcvCvcv CvcvCvcvnoCvcv CvcvCvcvCvcvno CvccnoCvcvCvcv CvccCvcvnoCvcv CvccCvcvCvcvno CvcvnoCvccCvcv "
        "CvcvCvccnoCvcv CvcvCvccCvcvno CvcvnoCvcvCvcc CvcvCvcvnoCvcc CvcvCvcvCvccno CvccnoCvccCvcv CvccCvccnoCvcv "
        "CvccCvccCvcvno CvcvnoCvccCvcc CvcvCvccnoCvcc CvcvCvccCvccno CvccnoCvcvCvcc CvccCvcvnoCvcc CvccCvcvCvccno"
    ),
    "medium": "CvcnoCvc CvcCvcno",
    "short": "Cvcn",
    "basic": "aaanaaan aannaaan aaannaaa",
    "pin": "nnnn",
}
_CONSONANTS: Final = "bcdfghjklmnpqrstvwxyz"
_LETTERS: Final = f"AEIOUaeiou{_CONSONANTS.upper()}{_CONSONANTS}"
_CHARACTERS: Final = {
    "V": "AEIOU",
    "C": _CONSONANTS.upper(),
    "v": "aeiou",
    "c": _CONSONANTS,
    "A": f"AEIOU{_CONSONANTS.upper()}",
    "a": _LETTERS,
    "n": "0123456789",
    "o": "@&%?,=[]_:-+*$#!'^~;()/.",
    "x": f"{_LETTERS}0123456789!@#$%^&*()",
}


def _hash(name: str) -> Callable[[str], str]:
    return lambda text: hashlib.new(name, encoded(text)).hexdigest()


def _bcrypt(password: str) -> str:
    try:
        import bcrypt
    except ImportError:
        raise FunctionError(f"bcrypt needs the library bcrypt; {_EXTRA}") from None
    data = encoded(password)
    if len(data) > 72:
        return "failed to encrypt string with bcrypt: bcrypt: password length exceeds 72 bytes"
    return bcrypt.hashpw(data, bcrypt.gensalt(10, b"2a")).decode()


def _htpasswd(user: str, password: str) -> str:
    return f"invalid username: {user}" if ":" in user else f"{user}:{_bcrypt(password)}"


def _rand_bytes(count: int) -> str:
    if not 0 <= count <= _RANDOM_LIMIT:
        raise FunctionError(f"between 0 and {_RANDOM_LIMIT} random bytes at once, not {count}")
    return base64.b64encode(secrets.token_bytes(count)).decode()


def _derive_password(counter: int, kind: str, password: str, user: str, site: str) -> str:
    if kind not in _TEMPLATES:
        return f"cannot find password template {kind}"
    name, place = encoded(user), encoded(site)
    salt = _SEED + len(name).to_bytes(4, "big") + name
    key = hashlib.scrypt(encoded(password), salt=salt, n=32768, r=8, p=2, dklen=64, maxmem=2**26)
    message = _SEED + len(place).to_bytes(4, "big") + place + counter.to_bytes(4, "big")
    seed = hmac.digest(key, message, "sha256")
    templates = _TEMPLATES[kind].split()
    template = templates[seed[0] % len(templates)]
    return "".join(
        _CHARACTERS[each][byte % len(_CHARACTERS[each])] for each, byte in zip(template, seed[1:], strict=False)
    )


# ---- AES


def _cipher(password: str, vector: bytes) -> Any:
    ciphers = _cryptography().ciphers
    key = encoded(password)[:32].ljust(32, b"\0")
    return ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.CBC(vector))


def _encrypt(password: str, text: str) -> str:
    if not text:
        return ""
    data, vector = encoded(text), secrets.token_bytes(16)
    padding = 16 - len(data) % 16
    encryptor = _cipher(password, vector).encryptor()
    return base64.b64encode(vector + encryptor.update(data + bytes((padding,)) * padding)).decode()


def _decrypt(password: str, text: str) -> str:
    if not text:
        return ""
    data = base64_bytes(text)
    if len(data) < 32 or len(data) % 16:
        raise FunctionError("the text is not one that encryptAES returned")
    plain = _cipher(password, data[:16]).decryptor().update(data[16:])
    if plain[-1] > len(plain):
        raise FunctionError("the password is not the one of encryptAES")
    return decoded(plain[: len(plain) - plain[-1]])


# ---- keys and certificates


class _Cryptography:
    """The modules of cryptography that are used here."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import ciphers, hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
        from cryptography.hazmat.primitives.ciphers import algorithms, modes
        from cryptography.x509 import oid

        assert algorithms is not None
        assert modes is not None
        self.x509 = x509
        self.oid = oid
        self.ciphers: Any = ciphers
        self.hashes = hashes
        self.serialization = serialization
        self.dsa, self.ec, self.ed25519, self.rsa = dsa, ec, ed25519, rsa


def _cryptography() -> _Cryptography:
    try:
        return _Cryptography()
    except ImportError:
        raise FunctionError(f"keys and certificates need cryptography; {_EXTRA}") from None


class Certificate(Object):
    """A certificate and its key, in PEM."""

    type_name = "sprig.certificate"
    members = {"Cert": lambda pair: pair.cert, "Key": lambda pair: pair.private}  # noqa: RUF012

    def __init__(self, cert: str, private: str) -> None:
        self.cert = cert
        self.private = private

    def text(self) -> str:
        return f"{{{self.cert} {self.private}}}"

    def key(self) -> object:
        return self.cert, self.private

    def json(self) -> dict[str, str]:
        """Return the value for JSON."""
        return {"Cert": self.cert, "Key": self.private}


def _private_key(kind: str) -> str:
    lib = _cryptography()
    key: Any
    if kind in ("", "rsa"):
        key = lib.rsa.generate_private_key(public_exponent=65537, key_size=4096)
    elif kind == "dsa":
        key = lib.dsa.generate_private_key(key_size=2048)
    elif kind == "ecdsa":
        key = lib.ec.generate_private_key(lib.ec.SECP256R1())
    elif kind == "ed25519":
        key = lib.ed25519.Ed25519PrivateKey.generate()
    else:
        return f"Unknown type {kind}"
    return _key_text(key)


def _key_text(key: Any) -> str:
    lib = _cryptography()
    formats = lib.serialization.PrivateFormat
    is_ed25519 = isinstance(key, lib.ed25519.Ed25519PrivateKey)
    style = formats.PKCS8 if is_ed25519 else formats.TraditionalOpenSSL
    encrypted = lib.serialization.NoEncryption()
    return str(key.private_bytes(lib.serialization.Encoding.PEM, style, encrypted).decode())


def _loaded_key(pem: str) -> Any:
    """Read a private key. Raises FunctionError."""
    match = _PEM.search(pem)
    if match is None:
        raise FunctionError("the key is not PEM")
    if not match[1].endswith("PRIVATE KEY"):
        raise FunctionError(f"the PEM block {match[1]!r} is not a private key")
    lib = _cryptography()
    try:
        return lib.serialization.load_pem_private_key(encoded(match[0]), None)
    except (ValueError, TypeError) as error:
        raise FunctionError(f"the private key cannot be read: {error}") from None


def _loaded_certificate(pem: str) -> x509.Certificate:
    match = _PEM.search(pem)
    if match is None:
        raise FunctionError("the certificate is not PEM")
    try:
        found: x509.Certificate = _cryptography().x509.load_pem_x509_certificate(encoded(match[0]))
    except ValueError as error:
        raise FunctionError(f"the certificate cannot be read: {error}") from None
    return found


def _new_key() -> Any:
    return _cryptography().rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _names(ips: list[Any], hosts: list[Any]) -> list[x509.GeneralName]:
    lib = _cryptography()
    names: list[x509.GeneralName] = []
    for host in hosts:
        if not isinstance(host, str):
            raise FunctionError(f"the DNS name {text_of(host)} is not a string")
        names.append(lib.x509.DNSName(host))
    for ip in ips:
        if not isinstance(ip, str):
            raise FunctionError(f"the IP address {text_of(ip)} is not a string")
        try:
            names.append(lib.x509.IPAddress(ipaddress.ip_address(ip)))
        except ValueError:
            raise FunctionError(f"{ip!r} is not an IP address") from None
    return names


def _certificate(
    name: str, ips: list[Any], hosts: list[Any], days: int, key: Any, signer: Certificate | None, is_ca: bool = False
) -> Certificate:
    lib = _cryptography()
    names = _names(ips, hosts)
    signing_key: CertificateIssuerPrivateKeyTypes = key if signer is None else _loaded_key(signer.private)
    subject = lib.x509.Name([lib.x509.NameAttribute(lib.x509.NameOID.COMMON_NAME, name)] if name else [])
    issuer = subject
    now = datetime.now(UTC)
    extensions: list[tuple[x509.ExtensionType, bool]] = [
        (_usage(is_ca), True),
        (
            lib.x509.ExtendedKeyUsage(
                [lib.oid.ExtendedKeyUsageOID.SERVER_AUTH, lib.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
            ),
            False,
        ),
        (lib.x509.BasicConstraints(is_ca, None), True),
    ]
    if is_ca:
        extensions.append((lib.x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False))
    if signer is not None:
        parent = _loaded_certificate(signer.cert)
        issuer = parent.subject
        extensions += _authority(parent)
    if names:
        extensions.append((lib.x509.SubjectAlternativeName(names), not name))
    builder = lib.x509.CertificateBuilder(issuer, subject, key.public_key(), secrets.randbits(127) + 1)
    builder = builder.not_valid_before(now).not_valid_after(now + timedelta(days=days))
    for extension, is_critical in extensions:
        builder = builder.add_extension(extension, critical=is_critical)
    algorithm = None if isinstance(signing_key, lib.ed25519.Ed25519PrivateKey) else lib.hashes.SHA256()
    signed = builder.sign(signing_key, algorithm)
    return Certificate(signed.public_bytes(lib.serialization.Encoding.PEM).decode(), _key_text(key))


def _usage(is_ca: bool) -> x509.KeyUsage:
    usage: x509.KeyUsage = _cryptography().x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=True,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_ca,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    return usage


def _authority(parent: x509.Certificate) -> list[tuple[x509.ExtensionType, bool]]:
    lib = _cryptography()
    try:
        identifier = parent.extensions.get_extension_for_class(lib.x509.SubjectKeyIdentifier).value
    except lib.x509.ExtensionNotFound:
        return []
    return [(lib.x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier), False)]


def _checked(call: Callable[..., Certificate]) -> Callable[..., Certificate]:
    """Return a function whose errors of cryptography are errors of the template."""

    def run(*arguments: Any) -> Certificate:
        try:
            return call(*arguments)
        except (ValueError, TypeError, OverflowError) as error:
            raise FunctionError(f"the certificate cannot be created: {error}") from None

    return run


def _ca(name: str, days: int) -> Certificate:
    return _certificate(name, [], [], days, _new_key(), None, is_ca=True)


def _ca_with_key(name: str, days: int, key: str) -> Certificate:
    return _certificate(name, [], [], days, _loaded_key(key), None, is_ca=True)


def _self_signed(name: str, ips: list[Any], hosts: list[Any], days: int) -> Certificate:
    return _certificate(name, ips, hosts, days, _new_key(), None)


def _self_signed_with_key(name: str, ips: list[Any], hosts: list[Any], days: int, key: str) -> Certificate:
    return _certificate(name, ips, hosts, days, _loaded_key(key), None)


def _signed(name: str, ips: list[Any], hosts: list[Any], days: int, signer: Certificate) -> Certificate:
    return _certificate(name, ips, hosts, days, _new_key(), signer)


def _signed_with_key(
    name: str, ips: list[Any], hosts: list[Any], days: int, signer: Certificate, key: str
) -> Certificate:
    return _certificate(name, ips, hosts, days, _loaded_key(key), signer)


def _custom(cert: str, key: str) -> Certificate:
    pair = Certificate(decoded(base64_bytes(cert)), decoded(base64_bytes(key)))
    _loaded_certificate(pair.cert)
    _loaded_key(pair.private)
    return pair


_LISTS: Final = ("string", "list", "list", "int")
FUNCTIONS: Final[Mapping[str, Function]] = {
    "sha1sum": f(_hash("sha1"), "string"),
    "sha256sum": f(_hash("sha256"), "string"),
    "sha512sum": f(_hash("sha512"), "string"),
    "adler32sum": f(lambda text: str(zlib.adler32(encoded(text))), "string"),
    "bcrypt": f(_bcrypt, "string", steps=_SLOW),
    "htpasswd": f(_htpasswd, "string", "string", steps=_SLOW),
    "randBytes": f(_rand_bytes, "int"),
    "derivePassword": f(_derive_password, "uint32", "string", "string", "string", "string", steps=4 * _SLOW),
    "encryptAES": f(_encrypt, "string", "string"),
    "decryptAES": f(_decrypt, "string", "string"),
    "genPrivateKey": f(_private_key, "string", steps=5 * _SLOW),
    "buildCustomCert": f(_checked(_custom), "string", "string"),
    "genCA": f(_checked(_ca), "string", "int", steps=_SLOW),
    "genCAWithKey": f(_checked(_ca_with_key), "string", "int", "string"),
    "genSelfSignedCert": f(_checked(_self_signed), *_LISTS, steps=_SLOW),
    "genSelfSignedCertWithKey": f(_checked(_self_signed_with_key), *_LISTS, "string"),
    "genSignedCert": f(_checked(_signed), *_LISTS, "certificate", steps=_SLOW),
    "genSignedCertWithKey": f(_checked(_signed_with_key), *_LISTS, "certificate", "string"),
}
