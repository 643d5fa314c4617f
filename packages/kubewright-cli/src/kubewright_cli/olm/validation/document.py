"""A bundle as OLM's tools read it from a folder.

The folder of the ClusterServiceVersion has one object in each file; further documents of a file are ignored. Follows
github.com/operator-framework/api pkg/manifests.
"""

from __future__ import annotations

import base64
import gzip
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.errors import ConfigError, DecodeError
from kubewright.machinery.folders import files_below
from kubewright.machinery.json import JSONObject
from kubewright.models import codec
from kubewright_cli.olm.parts import mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.serviceversion import API_VERSION, KIND
from kubewright_cli.olm.validation.csvtypes import ClusterServiceVersion
from kubewright_cli.olm.validation.finding import Finding

CRD: Final = "CustomResourceDefinition"
_CRD_VERSIONS: Final = ("apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1")
_TOLERATED: Final = re.compile(r"expected str( \| null)?, got (int|float|bool)")
_WRITE_YAML: Final = "write it as `kubewright generate bundle` does"


@dataclass(frozen=True, slots=True)
class Document:
    """An object of a bundle, and its file."""

    file: str
    data: JSONObject

    @property
    def kind(self) -> str:
        return text(self.data.get("kind"))

    @property
    def api_version(self) -> str:
        return text(self.data.get("apiVersion"))

    @property
    def metadata(self) -> JSONObject:
        return mapping(self.data.get("metadata"))

    @property
    def name(self) -> str:
        return text(self.metadata.get("name"))

    @property
    def spec(self) -> JSONObject:
        return mapping(self.data.get("spec"))


@dataclass(frozen=True, slots=True)
class BundleDocuments:
    """A bundle that could be read."""

    csv: Document
    objects: Sequence[Document]
    """All objects, the ClusterServiceVersion included, by file name."""
    annotations: Mapping[str, object] = field(default_factory=dict[str, object])
    """Those of `metadata/annotations.yaml`."""
    size: int = 0
    compressed_size: int = 0

    @property
    def crds(self) -> list[Document]:
        return [each for each in self.objects if each.kind == CRD]


class Reader:
    """Reads a bundle, and collects what makes it unreadable."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.findings: list[Finding] = []
        """What makes the bundle unreadable."""
        self.notes: list[Finding] = []
        """What only some tools refuse."""

    def read(self) -> BundleDocuments | None:
        """Return the bundle; None if there are findings. Raises ConfigError if there is no such folder."""
        if not self._folder.is_dir():
            raise ConfigError(f"there is no folder {self._folder}; name the folder of a bundle")
        places = {path.parent for path in _walk(self._folder) if (first_document(path) or {}).get("kind") == KIND}
        if not places:
            self._add("no-csv", "", "there is no ClusterServiceVersion", "add one to manifests; " + _WRITE_YAML)
            return None
        annotations = self._annotations()
        objects = list(self._objects(max(places)))
        versions = [each for each in objects if each.kind == KIND]
        if len(versions) > 1:
            why = f"{len(versions)} ClusterServiceVersions in one bundle"
            self._add("several-csvs", versions[1].file, why, "keep one: a bundle is one version")
        for each in objects:
            self._check_types(each)
        if self.findings:
            return None
        sizes = [path.read_bytes() for path in files_below(self._folder)]
        compressed = sum(len(base64.b64encode(gzip.compress(each, 6, mtime=0))) for each in sizes)
        return BundleDocuments(versions[0], objects, annotations, sum(map(len, sizes)), compressed)

    def _annotations(self) -> Mapping[str, object]:
        found: Mapping[str, object] = {}
        for path in _walk(self._folder):
            if not path.name.startswith("annotations"):
                continue
            try:
                document = yaml.load(path.read_bytes())
            except DecodeError as error:
                self._add("annotations-unreadable", self._name(path), str(error), "write a map of annotations in YAML")
                continue
            found = mapping(document.get("annotations"))
        return found

    def _objects(self, folder: Path) -> Iterator[Document]:
        for path in sorted(folder.iterdir()):
            name = self._name(path)
            if path.is_dir():
                self._add(
                    "nested-folder", name, "a folder among the manifests", "move its files up; OLM reads no folders"
                )
            elif path.name.startswith("."):
                self._add("hidden-file", name, "a hidden file among the manifests", "remove it")
            elif (document := first_document(path)) is None:
                self._add("unreadable", name, "not an object in YAML or JSON", "remove the file or write an object")
            elif not text(document.get("kind")):
                self._add("kind-missing", name, "the object has no kind", "add kind and apiVersion")
            else:
                yield Document(name, document)

    def _check_types(self, document: Document) -> None:
        if document.kind == CRD and document.api_version not in _CRD_VERSIONS:
            why = f'a CustomResourceDefinition of version "{document.api_version}" is not supported'
            self._add("crd-version", document.file, why, "write apiextensions.k8s.io/v1", "apiVersion")
        if document.kind != KIND:
            return
        version = document.spec.get("version")
        if isinstance(version, str) and not _parses(version):
            why = "not a semantic version"
            self._add("csv-version", document.file, why, 'write one like "1.2.0"', "spec.version", version)
        try:
            codec.from_dict(ClusterServiceVersion, {**document.data, "apiVersion": API_VERSION})
        except DecodeError as error:
            problem = str(error).partition('": ')[2] if document.name else str(error).partition(": ")[2]
            field, _, why = problem.partition(": ")
            if "missing required field" in why:  # none of OLM's tools requires one here
                return
            found = Finding(
                "error", "csv-type", document.file, field, "", why, "write a value of that type", suite="load"
            )
            # Some of OLM's tools take a number for a text, and some refuse it.
            (self.notes if _TOLERATED.search(why) else self.findings).append(found)

    def _name(self, path: Path) -> str:
        return str(path.relative_to(self._folder))

    def _add(self, rule: str, file: str, problem: str, remedy: str, field: str = "", value: str = "") -> None:
        self.findings.append(Finding("error", rule, file, field, value, problem, remedy, suite="load"))


def first_document(path: Path) -> JSONObject | None:
    """Return the first object of a file; None if it has none."""
    try:
        return next(iter(yaml.load_all(path.read_bytes())), None)
    except (OSError, DecodeError):
        return None


def _walk(folder: Path) -> Iterator[Path]:
    for path in files_below(folder):
        inside = path.relative_to(folder).parts
        if not any(each.startswith(".") for each in inside):
            yield path


def _parses(version: str) -> bool:
    try:
        Version.parse_tolerant(version)
    except ValueError:
        return False
    return True
