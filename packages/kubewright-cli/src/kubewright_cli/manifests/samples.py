"""Samples of the project's kinds in `config/samples`.

`kubewright generate` writes one for each kind and version, from the schema, and writes it again when the types change.
After the first edit a sample belongs to its author: `generate` then only reports the rules of the types that the sample
breaks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.fields import FieldError
from kubewright.machinery.json import JSONObject, is_array, is_object
from kubewright.models import CustomResource
from kubewright.models._schema import root_schema
from kubewright_cli.manifests.samplevalues import fields

_HEADER: Final = "# A first sample: `kubewright generate` updates it until you edit it (checksum {}).\n"
_WRITTEN: Final = re.compile(re.escape(_HEADER).replace(r"\{\}", "([0-9a-f]{12})"))


@dataclass(frozen=True, slots=True)
class InvalidSample:
    """A rule of a type that an edited sample breaks."""

    file: str
    kind: str
    error: str

    def __str__(self) -> str:
        return f"config/samples/{self.file} no longer fits {self.kind}: {self.error}; edit the sample"


def present(folder: Path) -> list[str]:
    """Return the names of the samples in `config/samples`."""
    return sorted(path.name for path in folder.glob("*.yaml") if path.name != "kustomization.yaml")


def planned(kinds: Iterable[type[CustomResource]], folder: Path) -> dict[str, str]:
    """Return the samples to write, by file name: of each served version that no edited file there shows.

    Raises ConfigError for a file that cannot be read.
    """
    kinds = list(kinds)
    edited = [name for name in present(folder) if not is_untouched(folder / name)]
    shown = {(each.get("apiVersion"), each.get("kind")) for name in edited for each in _read(folder / name)}
    served = [kind for kind in kinds if kind.__served_as__.served]
    wanted = [kind for kind in served if (kind.__api__.api_version, kind.__api__.kind) not in shown]
    named = {_file_name(kind, kinds): kind for kind in wanted}
    return {name: text(kind) for name, kind in named.items() if name not in edited}


def obsolete(kinds: Iterable[type[CustomResource]], folder: Path) -> list[str]:
    """Return the untouched samples of kinds and versions that are no longer served."""
    wanted = planned(kinds, folder)
    return [name for name in present(folder) if name not in wanted and is_untouched(folder / name)]


def invalid_samples(kinds: Iterable[type[CustomResource]], folder: Path) -> Iterator[InvalidSample]:
    """Yield the rules that edited samples break, in the words of the API server."""
    known = {(kind.__api__.api_version, kind.__api__.kind): kind for kind in kinds}
    groups = {kind.__api__.group for kind in known.values()}
    for name in present(folder):
        if is_untouched(folder / name):
            continue
        for document in _read(folder / name):
            api_version, called = str(document.get("apiVersion")), str(document.get("kind"))
            kind = known.get((api_version, called))
            if kind is not None:
                for error in (*_unknown_fields(kind, document), *map(str, kind.validate(document))):
                    yield InvalidSample(name, called, error)
            elif api_version.rpartition("/")[0] in groups:
                yield InvalidSample(name, called, f"the project has no {called} of {api_version}")


def text(kind: type[CustomResource]) -> str:
    """Return the file of a sample. Rules that the sample breaks are marked TODO."""
    document = sample(kind)
    todo = "".join(f"# TODO: {_as_todo(error)}\n" for error in kind.validate(document))
    body = todo + yaml.dump(document)
    return _HEADER.format(_checksum(body)) + body


def sample(kind: type[CustomResource]) -> JSONObject:
    """Return an object of `kind` with the fields that must be set, and those that have a default."""
    api = kind.__api__
    document: JSONObject = {
        "apiVersion": api.api_version,
        "kind": api.kind,
        "metadata": {"name": f"{api.kind.lower()}-sample"},
    }
    schema = root_schema(kind)
    own = {name: each for name, each in schema["properties"].items() if name not in (*document, "status")}
    return document | fields({**schema, "properties": own})


def is_untouched(path: Path) -> bool:
    """Return whether a file is as `text` wrote it."""
    try:
        head, newline, body = path.read_text().partition("\n")
    except (OSError, UnicodeDecodeError):
        return False
    found = _WRITTEN.fullmatch(head + newline)
    return found is not None and found[1] == _checksum(body)


def _checksum(body: str) -> str:
    return hashlib.sha256(body.encode()).hexdigest()[:12]


def _as_todo(error: FieldError) -> str:
    return " ".join(str(error).split())


def _unknown_fields(kind: type[CustomResource], document: JSONObject) -> Iterator[str]:
    """Yield the fields of a sample that its type does not declare."""
    yield from (f"{path}: unknown field" for path in _unknown(document, root_schema(kind), ""))


def _unknown(value: object, schema: JSONObject, path: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields") or path in ("metadata", "apiVersion", "kind"):
        return
    properties: JSONObject = schema.get("properties") or {}
    if is_array(value):
        for place, each in enumerate(value):
            yield from _unknown(each, schema.get("items") or {}, f"{path}[{place}]")
    elif is_object(value):
        inside = schema.get("additionalProperties")
        for name, each in value.items():
            below = f"{path}.{name}" if path else name
            if name in properties:
                yield from _unknown(each, properties[name], below)
            elif is_object(inside):
                yield from _unknown(each, inside, below)
            elif not inside:
                yield below


def _file_name(kind: type[CustomResource], among: Iterable[type[CustomResource]]) -> str:
    """Return kubebuilder's name: `<group>_<version>_<kind>.yaml`, with only the first part of an unambiguous group."""
    api = kind.__api__
    first = api.group.partition(".")[0]
    alike = {
        each.__api__.group
        for each in among
        if each.__api__.kind == api.kind and each.__api__.group.partition(".")[0] == first
    }
    return f"{first if len(alike) == 1 else api.group}_{api.version}_{api.kind.lower()}.yaml"


def _read(path: Path) -> list[JSONObject]:
    try:
        return list(yaml.load_all(path.read_text()))
    except (OSError, UnicodeDecodeError, DecodeError) as error:
        raise ConfigError(f"{path}: {error}") from error
