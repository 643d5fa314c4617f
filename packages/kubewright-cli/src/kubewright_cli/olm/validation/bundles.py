"""The rules for a bundle as a whole: CRDs against the ClusterServiceVersion, ServiceAccounts, images, size, name.

Follows github.com/operator-framework/api pkg/validation (BundleValidator).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests.reference import Reference
from kubewright_cli.olm.bundle import LABELS
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.validation.document import BundleDocuments, Document
from kubewright_cli.olm.validation.finding import Finding, Level
from kubewright_cli.olm.validation.serviceversions import GVK, group_of, gvk_text

LARGEST: Final = 1 << 20
"""Bytes of the compressed bundle, which OLM keeps in a ConfigMap."""
_NEAR: Final = 0.85
_IDENTIFIER: Final = re.compile(r"[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha(256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")


def check_bundle(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the default rules."""
    yield from _check_crds(bundle)
    yield from _check_accounts(bundle)
    yield from _check_size(bundle)
    yield from _check_release(bundle)
    for place, each in enumerate(items(bundle.csv.spec.get("relatedImages"))):
        field, image = f"spec.relatedImages[{place}].image", text(each.get("image"))
        if problem := image_problem(image):
            yield _finding(bundle.csv, "related-image", field, image, problem, "write registry/name:tag or @sha256:...")


def image_problem(image: str) -> str:
    """Return what is wrong with the name of an image; an empty text if it is valid."""
    if not image:
        return "the image is empty"
    if _IDENTIFIER.fullmatch(image):
        return "an identifier of an image, and not its name"
    name, at, digest = image.partition("@")
    if at and not _DIGEST.fullmatch(digest):
        return f'"{digest}" is not a digest'
    try:
        Reference.parse(name)
    except ConfigError as error:
        return str(error)
    return ""


def owned_kinds(csv: Document) -> list[JSONObject]:
    """Return the owned CRDs of a ClusterServiceVersion."""
    return items(mapping(csv.spec.get("customresourcedefinitions")).get("owned"))


def versions_of(crd: Document) -> list[str]:
    """Return the names of the versions of a CRD, also of the old form with one version."""
    names = [text(each.get("name")) for each in items(crd.spec.get("versions"))]
    return names or ([text(crd.spec.get("version"))] if crd.api_version.endswith("/v1beta1") else [])


def _finding(
    document: Document, rule: str, field: str, value: str, problem: str, remedy: str, level: Level = "error"
) -> Finding:
    return Finding(level, rule, document.file, field, value, problem, remedy)


def _check_crds(bundle: BundleDocuments) -> Iterator[Finding]:
    kinds: dict[GVK, Document] = {}
    for crd in bundle.crds:
        names = mapping(crd.spec.get("names"))
        for version in versions_of(crd):
            gvk = (text(crd.spec.get("group")), version, text(names.get("kind")))
            if gvk in kinds:
                why = f"{kinds[gvk].file} defines the same version of the same kind"
                yield _finding(crd, "crd-twice", "spec.versions", gvk_text(gvk), why, "remove one of the two")
            kinds[gvk] = crd
    owned: set[tuple[str, str]] = set()
    for place, each in enumerate(owned_kinds(bundle.csv)):
        gvk = (group_of(text(each.get("name"))), text(each.get("version")), text(each.get("kind")))
        if gvk in kinds:
            owned.add((gvk[0], gvk[2]))
            continue
        field = f"spec.customresourcedefinitions.owned[{place}]"
        why = "an owned kind whose CRD is not in the bundle, or has other names or versions"
        yield _finding(bundle.csv, "owned-crd-missing", field, gvk_text(gvk), why, "add the CRD, or correct the entry")
    for gvk, crd in kinds.items():
        if (gvk[0], gvk[2]) not in owned:
            why = "the ClusterServiceVersion does not name this CRD"
            remedy = "add it to spec.customresourcedefinitions.owned, or remove the CRD"
            yield _finding(crd, "crd-not-owned", "spec", gvk_text(gvk), why, remedy)


def _check_accounts(bundle: BundleDocuments) -> Iterator[Finding]:
    strategy = mapping(mapping(bundle.csv.spec.get("install")).get("spec"))
    used = {
        text(mapping(mapping(mapping(each.get("spec")).get("template")).get("spec")).get("serviceAccountName"))
        for each in items(strategy.get("deployments"))
    }
    for each in bundle.objects:
        if (each.api_version, each.kind) == ("v1", "ServiceAccount") and each.name in used:
            why = "OLM creates this ServiceAccount, because a Deployment of the ClusterServiceVersion uses it"
            yield _finding(each, "service-account", "metadata.name", each.name, why, "remove or rename the object")


def _check_size(bundle: BundleDocuments) -> Iterator[Finding]:
    size, largest = bundle.compressed_size, LARGEST
    what = f"the compressed bundle has {size} bytes, and at most {largest} are possible"
    remedy = "shorten descriptions, or remove objects and unused versions"
    if size > largest:
        yield Finding("error", "bundle-size", "", "", "", what, remedy)
    elif size > largest * _NEAR:
        yield Finding("warning", "bundle-size-near", "", "", "", what, remedy)


def _check_release(bundle: BundleDocuments) -> Iterator[Finding]:
    csv = bundle.csv
    release, version = text(csv.spec.get("release")), text(csv.spec.get("version"))
    package = text(bundle.annotations.get(f"{LABELS}package.v1"))
    right = f"{package}-v{Version.parse_tolerant(version) if version else '0.0.0'}-{release}"
    if release and csv.name != right:
        why = "a bundle with a release has the release in its name"
        yield _finding(csv, "release-name", "metadata.name", csv.name, why, f'write "{right}"')
