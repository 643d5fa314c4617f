"""JSON Web Tokens of service accounts: signed with RS256 or ES256/384/512, in compact form.

Key IDs are those of kube-apiserver (base64url of the SHA-256 of the public key's DER form), so each server finds the
key of tokens that the other has issued. Part of the embedded server for tests; not a general JWT library. Follows RFC
7515, RFC 7518 and k8s.io/kubernetes pkg/serviceaccount.
"""

from __future__ import annotations

import binascii
import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from typing import Final, TypeAlias

import msgspec
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject

PrivateKey: TypeAlias = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
PublicKey: TypeAlias = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


class InvalidToken(Exception):
    """A token is malformed, or was not signed with the key."""


@dataclass(frozen=True, slots=True)
class _Curve:
    algorithm: str
    name: str
    hash: hashes.HashAlgorithm
    size: int
    """Bytes of each of the two integers in a signature."""


_BASE64URL: Final = re.compile(r"[A-Za-z0-9_-]*")
_CURVES: Final = {
    "secp256r1": _Curve("ES256", "P-256", hashes.SHA256(), 32),
    "secp384r1": _Curve("ES384", "P-384", hashes.SHA384(), 48),
    "secp521r1": _Curve("ES512", "P-521", hashes.SHA512(), 66),
}


@dataclass(frozen=True, slots=True)
class Token:
    """A decoded token. Nothing in it is proven until `VerifyingKey.verify` returns."""

    header: JSONObject
    claims: JSONObject
    signed: bytes
    signature: bytes

    @classmethod
    def parse(cls, text: str) -> Token:
        """Decode a token in compact form. Raises InvalidToken."""
        signed, _, signature = text.rpartition(".")
        header, dot, claims = signed.partition(".")
        if not dot:
            raise InvalidToken("a token must have three parts")
        try:
            parsed = cls(
                msgspec.json.decode(_unb64(header), type=dict[str, object]),
                msgspec.json.decode(_unb64(claims), type=dict[str, object]),
                signed.encode("ascii"),
                _unb64(signature),
            )
        except (ValueError, UnicodeError, msgspec.DecodeError) as error:
            raise InvalidToken(f"a part of the token is malformed: {error}") from error
        return parsed


class VerifyingKey:
    """A public key that verifies tokens."""

    def __init__(self, key: PublicKey) -> None:
        self._key = key
        self._curve = None if isinstance(key, rsa.RSAPublicKey) else _curve(key)
        self.algorithm: Final = self._curve.algorithm if self._curve else "RS256"
        der = key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
        self.id: Final = _b64(hashlib.sha256(der).digest())

    @classmethod
    def from_pem(cls, data: bytes) -> VerifyingKey:
        """Load a public key, also one in a certificate or in a private key. Raises ConfigError."""
        try:
            if b"-----BEGIN CERTIFICATE-----" in data:
                key: object = x509.load_pem_x509_certificate(data).public_key()
            elif b"PRIVATE KEY-----" in data:
                return SigningKey.from_pem(data).public
            else:
                key = serialization.load_pem_public_key(data)
        except ValueError as error:
            raise ConfigError(f"service account key: {error}; use a PEM file") from error
        if not isinstance(key, (rsa.RSAPublicKey, ec.EllipticCurvePublicKey)):
            raise ConfigError("service account key: must be RSA or EC (P-256, P-384, P-521)")
        return cls(key)

    def verify(self, token: Token) -> None:
        """Raise InvalidToken unless the token was signed with the private key."""
        if token.header.get("alg") != self.algorithm:
            raise InvalidToken("the algorithm of the token does not match the key")
        try:
            if isinstance(self._key, rsa.RSAPublicKey):
                self._key.verify(token.signature, token.signed, padding.PKCS1v15(), hashes.SHA256())
                return
            assert self._curve is not None
            size = self._curve.size
            if len(token.signature) != 2 * size:
                raise InvalidToken("invalid signature")
            r, s = (int.from_bytes(part, "big") for part in (token.signature[:size], token.signature[size:]))
            self._key.verify(encode_dss_signature(r, s), token.signed, ec.ECDSA(self._curve.hash))
        except InvalidSignature:
            raise InvalidToken("invalid signature") from None

    def jwk(self) -> JSONObject:
        """Return the key as a JSON Web Key (RFC 7517), as `/openid/v1/jwks` publishes it."""
        common = {"use": "sig", "kid": self.id, "alg": self.algorithm}
        if isinstance(self._key, rsa.RSAPublicKey):
            rsa_numbers = self._key.public_numbers()
            modulus = rsa_numbers.n.to_bytes((rsa_numbers.n.bit_length() + 7) // 8, "big")
            exponent = rsa_numbers.e.to_bytes((rsa_numbers.e.bit_length() + 7) // 8, "big")
            return {**common, "kty": "RSA", "n": _b64(modulus), "e": _b64(exponent)}
        assert self._curve is not None
        numbers, size = self._key.public_numbers(), self._curve.size
        x, y = (_b64(number.to_bytes(size, "big")) for number in (numbers.x, numbers.y))
        return {**common, "kty": "EC", "crv": self._curve.name, "x": x, "y": y}


class SigningKey:
    """A private key that signs tokens."""

    def __init__(self, key: PrivateKey) -> None:
        self._key = key
        self.public: Final = VerifyingKey(key.public_key())
        header = {"alg": self.public.algorithm, "kid": self.public.id}
        self._header = _b64(msgspec.json.encode(header))

    @classmethod
    def generate(cls) -> SigningKey:
        """Generate a P-256 key."""
        return cls(ec.generate_private_key(ec.SECP256R1()))

    @classmethod
    def from_pem(cls, data: bytes) -> SigningKey:
        """Load an RSA or EC private key. Raises ConfigError."""
        try:
            key = serialization.load_pem_private_key(data, password=None)
        except ValueError as error:
            raise ConfigError(f"service account signing key: {error}; use an unencrypted PEM file") from error
        if not isinstance(key, (rsa.RSAPrivateKey, ec.EllipticCurvePrivateKey)):
            raise ConfigError("service account signing key: must be RSA or EC (P-256, P-384, P-521)")
        return cls(key)

    def to_pem(self) -> bytes:
        return self._key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def sign(self, claims: JSONObject) -> str:
        """Return a signed token with these claims, in compact form."""
        signed = f"{self._header}.{_b64(msgspec.json.encode(claims))}"
        data = signed.encode("ascii")
        if isinstance(self._key, rsa.RSAPrivateKey):
            return f"{signed}.{_b64(self._key.sign(data, padding.PKCS1v15(), hashes.SHA256()))}"
        curve = _curve(self._key)
        r, s = decode_dss_signature(self._key.sign(data, ec.ECDSA(curve.hash)))
        return f"{signed}.{_b64(r.to_bytes(curve.size, 'big') + s.to_bytes(curve.size, 'big'))}"


def _curve(key: ec.EllipticCurvePrivateKey | ec.EllipticCurvePublicKey) -> _Curve:
    try:
        return _CURVES[key.curve.name]
    except KeyError:
        raise ConfigError(
            f"service account key: curve {key.curve.name} is not supported; use P-256, P-384 or P-521"
        ) from None  # fmt: skip


def _b64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def _unb64(text: str) -> bytes:
    if not _BASE64URL.fullmatch(text):  # the decoder skips other characters
        raise InvalidToken("not base64url")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as error:
        raise InvalidToken("not base64url") from error
