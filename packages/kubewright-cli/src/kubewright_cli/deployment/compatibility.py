"""Objects in a cluster that the program's types cannot decode, for example since a required field was added.

A program that is not deployed yet may read a version that the cluster does not serve. Its objects are converted first.
The operator can neither reconcile nor finalize such an object: its deletion blocks while it has a finalizer.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from kubewright.client import Client, Unstructured, encode_object
from kubewright.machinery.errors import ConfigError, DecodeError, NotFound
from kubewright.machinery.json import JSONObject, read_object
from kubewright.models import CustomResource, codec
from kubewright.models._schema import root_schema
from kubewright.webhooks import Conversion
from kubewright_cli.deployment.crds import installed_crd, served_api
from kubewright_cli.manifests import Manifests
from kubewright_controlplane.schema.structural.schema import Schema

REMEDY: Final = "set the field in the object (kubectl edit), or give it a default in the class"


@dataclass(frozen=True, slots=True)
class Undecodable:
    """An object that the program cannot decode."""

    kind: str
    namespace: str | None
    name: str
    error: str
    """The kind, name and field, and what is wrong."""

    @property
    def problem(self) -> str:
        return f"the program cannot decode {self.error}; it can neither reconcile nor finalize the object"

    def __str__(self) -> str:
        return f"{self.problem}; {REMEDY}"


async def undecodable_objects(client: Client, manifests: Manifests) -> AsyncGenerator[Undecodable]:
    """Yield the objects of the project's kinds that the program cannot decode."""
    program = manifests.program
    for crd in manifests.crds:
        installed = await installed_crd(client, crd)
        if installed is None:
            continue
        cls = program.class_of(crd)
        try:
            found = await client.list(Unstructured.of(served_api(crd, installed, cls.__api__.version)))
        except (ConfigError, NotFound):  # nothing is served, so there is nothing to decode
            continue
        for each in found:
            error = decode_error(cls, each, program.conversion_of(cls))
            if error is not None:
                yield Undecodable(each.kind, each.metadata.namespace, each.metadata.name, error)


def decode_error(cls: type[CustomResource], obj: Unstructured, conversion: Conversion[Any] | None) -> str | None:
    """Return why `cls` cannot decode the object; None if it can. The defaults of the class's schema are filled in
    first, and an object of another version is converted.
    """
    document = read_object(encode_object(obj))
    source = document["apiVersion"]
    if conversion is not None and source in {each.__api__.api_version for each in conversion.kinds if each is not cls}:
        try:
            document = conversion.convert_document(encode_object(obj), cls.__api__.version)
        except Exception as error:  # noqa: BLE001 - functions of users raise anything
            name = "/".join(filter(None, (obj.metadata.namespace, obj.metadata.name)))
            reason = str(error) if isinstance(error, DecodeError) else f"{type(error).__name__}: {error}"
            return f'{obj.kind} "{name}": its conversion from {source} fails: {reason}'
    document["apiVersion"] = cls.__api__.api_version
    _filled(cls, document)
    try:
        codec.from_dict(cls, document)
    except DecodeError as error:
        return str(error)
    return None


def _filled(cls: type[CustomResource], document: JSONObject) -> None:
    schema = _schema(cls)
    schema.prune(document)
    schema.default(document)


@cache
def _schema(cls: type[CustomResource]) -> Schema:
    return Schema.from_crd(root_schema(cls))
