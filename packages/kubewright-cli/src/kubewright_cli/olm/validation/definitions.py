"""The rules for the CRDs of a bundle: those of an API server, apart from the schemas.

Follows github.com/operator-framework/api pkg/validation (CustomResourceDefinitionValidator), which leaves the errors in
schemas to the API server.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import Final

from kubewright.machinery.json import JSONObject
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.validation.document import BundleDocuments, Document
from kubewright_cli.olm.validation.finding import Finding, shown
from kubewright_controlplane.apiserver.apiextensions.validation import validate

_LEFT_OUT: Final = ("openAPIV3Schema", "status")
"""Parts of the paths of fields that are not checked."""
_SHARED: Final = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
}
"""Fields of a version, and where v1beta1 has them for all versions."""


def check_definitions(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield what an API server would refuse in the CRDs."""
    for each in bundle.crds:
        for error in validate(_defaulted(each)):
            if not any(part in error.field for part in _LEFT_OUT):
                value = "" if error.reason == "FieldValueRequired" else shown(error.value)
                problem = error.body.partition(": ")[2] if value else error.body
                remedy = "an API server refuses the CRD; correct the field"
                yield Finding("error", "crd-invalid", each.file, error.field, value, problem or error.body, remedy)


def _defaulted(crd: Document) -> JSONObject:
    data = deepcopy(crd.data)
    data["metadata"], spec = mapping(data.get("metadata")), mapping(data.get("spec"))
    names = mapping(spec.get("names"))
    kind = text(names.get("kind"))
    if kind:
        names = {"singular": kind.lower(), "listKind": f"{kind}List", **names}
    spec = {**spec, "names": names, "conversion": mapping(spec.get("conversion")) or {"strategy": "None"}}
    data["spec"] = _as_v1(spec) if crd.api_version.endswith("/v1beta1") else spec
    return data


def _as_v1(spec: JSONObject) -> JSONObject:
    """Return the spec of a CRD of v1beta1 in the form of v1."""
    versions = items(spec.get("versions")) or [{"name": spec.get("version"), "served": True, "storage": True}]
    shared = {new: spec[old] for new, old in _SHARED.items() if old in spec}
    conversion = dict(spec["conversion"])
    client = conversion.pop("webhookClientConfig", None)
    reviews = conversion.pop("conversionReviewVersions", None)
    if conversion.get("strategy") == "Webhook":
        conversion["webhook"] = {"clientConfig": client, "conversionReviewVersions": reviews or ["v1beta1"]}
    kept = {key: value for key, value in spec.items() if key not in (*_SHARED.values(), "version")}
    versions = [{**shared, **each} for each in versions]
    return {
        "scope": "Namespaced",
        "preserveUnknownFields": True,
        **kept,
        "versions": versions,
        "conversion": conversion,
    }
