"""The rules for the content of a bundle's image: its folders, annotations, dependencies, and what OLM can install.

Follows github.com/operator-framework/operator-registry pkg/lib/bundle.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from kubewright.cel.parser import parse
from kubewright.cel.syntax import CompileError
from kubewright.machinery import names
from kubewright.machinery.json import JSONObject, is_object
from kubewright_cli.olm.bundle import KINDS, LABELS
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Range
from kubewright_cli.olm.serviceversion import KIND
from kubewright_cli.olm.validation.bundles import owned_kinds, versions_of
from kubewright_cli.olm.validation.document import CRD, BundleDocuments, Document, first_document
from kubewright_cli.olm.validation.finding import Finding, shown

_MEDIA_TYPE: Final = "registry+v1"
_METADATA: Final = "metadata"
_ANNOTATIONS: Final = "metadata/annotations.yaml"
_DEPENDENCIES: Final = "metadata/dependencies.yaml"
_REQUIRED: Final = ("mediatype", "manifests", "metadata", "package", "channels")
_SUBSTITUTES: Final = "olm.substitutesFor"


def check_folders(folder: Path) -> Iterator[Finding]:
    """Yield the folders that the image of a bundle lacks."""
    for name in ("manifests", _METADATA):
        if not (folder / name).is_dir():
            yield _finding(
                "folder-missing", name, "", "", "there is no such folder", "create it; bundle.Dockerfile copies it"
            )


def check_metadata(folder: Path) -> Iterator[Finding]:
    """Yield what is wrong with the annotations and the dependencies."""
    documents = {path.name: first_document(path) or {} for path in sorted((folder / _METADATA).glob("*"))}
    annotations = next((each["annotations"] for each in documents.values() if is_object(each.get("annotations"))), None)
    if annotations is None:
        why = "there is no file with annotations"
        yield _finding(
            "annotations-file", _METADATA, "", "", why, f"add {_ANNOTATIONS}, which names package and channels"
        )
    else:
        yield from _check_annotations(folder, annotations)
    files = [name for name, each in documents.items() if each.get("dependencies")]
    for name in files[:1]:
        for place, each in enumerate(items(documents[name]["dependencies"])):
            yield from _check_dependency(f"{_METADATA}/{name}", f"dependencies[{place}]", each)


def check_objects(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the objects that OLM does not install, and those with invalid metadata."""
    for each in bundle.objects:
        if each.kind not in KINDS:
            remedy = f"remove the object; OLM installs: {', '.join(sorted(KINDS))}"
            yield _finding("kind-unsupported", each.file, "kind", each.kind, "OLM does not install this kind", remedy)
        elif each.kind not in (KIND, CRD):
            yield from _check_object_metadata(each)
    yield from _check_names(bundle)
    annotations = mapping(bundle.csv.metadata.get("annotations"))
    if bundle.csv.spec.get("release") and annotations.get(_SUBSTITUTES):
        path = f'metadata.annotations["{_SUBSTITUTES}"]'
        why = "a bundle with a release cannot substitute for another bundle"
        yield _finding(
            "substitutes", bundle.csv.file, path, shown(annotations[_SUBSTITUTES]), why, "remove one of the two"
        )


def _finding(rule: str, file: str, field: str, value: str, problem: str, remedy: str) -> Finding:
    return Finding("error", rule, file, field, value, problem, remedy, suite="format")


def _check_annotations(folder: Path, annotations: JSONObject) -> Iterator[Finding]:
    for each in _REQUIRED:
        name = f"{LABELS}{each}.v1"
        if name not in annotations:
            yield _finding(
                "annotation-missing", _ANNOTATIONS, f"annotations.{name}", "", "missing", "add the annotation"
            )
    media_type, right = annotations.get(f"{LABELS}mediatype.v1"), _media_type(folder)
    if media_type != right:
        why = "not the type of the content"
        field = f"annotations.{LABELS}mediatype.v1"
        yield _finding("media-type", _ANNOTATIONS, field, shown(media_type), why, f'write "{right}"')
    for each in ("channels", "channel.default"):
        name = f"{LABELS}{each}.v1"
        if annotations.get(name, "" if each == "channels" else None) == "":
            yield _finding("annotation-empty", _ANNOTATIONS, f"annotations.{name}", "", "empty", "name a channel")


def _media_type(folder: Path) -> str:
    paths = [path for path in (folder / "manifests").glob("*") if path.is_file()]
    if any(path.name == "Chart.yaml" for path in paths):
        return "helm"
    kinds = [(first_document(path) or {}).get("kind") for path in paths]
    return _MEDIA_TYPE if KIND in kinds else "plain"


# ---- dependencies


def _check_dependency(file: str, field: str, dependency: JSONObject) -> Iterator[Finding]:
    kind = text(dependency.get("type"))
    stated: object = dependency.get("value", "")
    value: object = (
        dict[str, object]() if stated is None else stated
    )  # a null has no fields, and no value is not an object
    known = ("olm.package", "olm.gvk", "olm.label", "olm.constraint")
    if kind not in known:
        why, remedy = "not a type of a dependency", f"write one of: {', '.join(known)}"
        yield _finding("dependency-type", file, f"{field}.type", kind, why, remedy)
        return
    if not is_object(value):
        yield _finding(
            "dependency-value", file, f"{field}.value", shown(value), "not an object", "write a map of fields"
        )
        return
    if kind == "olm.constraint":
        yield from _check_constraint(file, f"{field}.value", value)
        return
    needed = {
        "olm.package": ("packageName", "version"),
        "olm.gvk": ("group", "version", "kind"),
        "olm.label": ("label",),
    }
    for each in needed[kind]:
        if not value.get(each):
            yield _finding("dependency-field", file, f"{field}.value.{each}", "", "missing", "add the field")
    versions = text(value.get("version"))
    if kind == "olm.package" and versions:
        try:
            Range.parse(versions)
        except ValueError as error:
            remedy = 'write one like ">=1.0.0 <2.0.0"'
            yield _finding("dependency-range", file, f"{field}.value.version", versions, str(error), remedy)


def _check_constraint(file: str, field: str, value: JSONObject) -> Iterator[Finding]:
    if not is_object(value.get("cel")):
        why = "missing, and OLM's validator knows no other constraints here"
        yield _finding("constraint-missing", file, f"{field}.cel", "", why, "write an expression in cel.rule")
        return
    rule = text(mapping(value["cel"]).get("rule"))
    if not rule:
        yield _finding("constraint-rule", file, f"{field}.cel.rule", "", "missing", "write an expression in CEL")
        return
    try:
        parse(rule, ("semver_compare",))
    except CompileError as error:
        yield _finding("constraint-syntax", file, f"{field}.cel.rule", rule, str(error), "correct the expression")


# ---- objects


def _check_object_metadata(document: Document) -> Iterator[Finding]:
    metadata, file = document.metadata, document.file
    if not text(metadata.get("name")):
        yield _finding("object-metadata", file, "metadata.name", "", "missing", "name the object")
    if namespace := metadata.get("namespace"):
        why = "OLM installs objects into the namespace of the operator"
        yield _finding("object-metadata", file, "metadata.namespace", shown(namespace), why, "remove the field")
    for key, value in mapping(metadata.get("labels")).items():
        for error in names.qualified_name(key) + names.label_value(shown(value)):
            yield _finding(
                "object-metadata", file, f'metadata.labels["{key}"]', shown(value), error, "correct the label"
            )
    for key in mapping(metadata.get("annotations")):
        for error in names.qualified_name(key.lower()):
            field = f'metadata.annotations["{key}"]'
            yield _finding("object-metadata", file, field, key, error, "correct the name of the annotation")


def _check_names(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield owned kinds whose `name` is not that of their CRD. The default rules compare group, version and kind."""
    present = {
        (crd.name, version, text(mapping(crd.spec.get("names")).get("kind")))
        for crd in bundle.crds
        for version in ([text(crd.spec.get("version"))] if crd.spec.get("version") else versions_of(crd))
    }
    for place, each in enumerate(owned_kinds(bundle.csv)):
        key = (text(each.get("name")), text(each.get("version")), text(each.get("kind")))
        path = f"spec.customresourcedefinitions.owned[{place}]"
        if group := text(each.get("group")):
            why = "OLM's tools do not find the CRD of an entry with a group"
            yield _finding("owned-crd-name", bundle.csv.file, f"{path}.group", group, why, "remove the field")
        elif key not in present:
            why = "no CRD in the bundle has this name, version and kind"
            yield _finding("owned-crd-name", bundle.csv.file, f"{path}.name", key[0], why, "write the name of the CRD")
