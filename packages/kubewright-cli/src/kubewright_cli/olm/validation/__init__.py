"""Validation of bundles and catalogs by the rules of OLM's own validators, without Go.

`validate_bundle` checks what `operator-sdk bundle validate` and `opm alpha bundle validate` check, and
`validate_catalog` what `opm validate` checks. Each finding names file, field and value, and says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, TypeAlias

from kubewright_cli.olm.validation import hub, imageformat, practices, removedapis
from kubewright_cli.olm.validation.bundles import check_bundle
from kubewright_cli.olm.validation.catalogs import check_catalog as validate_catalog
from kubewright_cli.olm.validation.definitions import check_definitions
from kubewright_cli.olm.validation.document import BundleDocuments, Reader
from kubewright_cli.olm.validation.finding import Finding
from kubewright_cli.olm.validation.serviceversions import check_service_version

__all__ = ["SUITES", "Finding", "validate_bundle", "validate_catalog"]

_Suite: TypeAlias = Callable[[BundleDocuments, str], Iterator[Finding]]


def _hub(bundle: BundleDocuments, kubernetes: str) -> Iterator[Finding]:
    yield from hub.check_hub(bundle)
    yield from removedapis.check_removed_apis(bundle, kubernetes, "operatorhubv2")


_SUITES: Final[Mapping[str, _Suite]] = {
    "operatorhubv2": _hub,
    "capabilities": lambda bundle, _: hub.check_capabilities(bundle),
    "categories": lambda bundle, _: hub.check_categories(bundle),
    "good-practices": lambda bundle, _: practices.check_practices(bundle),
    "alpha-deprecated-apis": lambda bundle, kubernetes: removedapis.check_removed_apis(bundle, kubernetes),
    "bundle-objects": lambda bundle, _: practices.check_objects(bundle),
}

SUITES: Final = {
    **{name: (name,) for name in _SUITES},
    "operatorhub": ("operatorhubv2", "capabilities", "categories"),
    "all": tuple(_SUITES),
}
"""The optional suites, and groups of them."""


def validate_bundle(folder: Path, suites: Iterable[str] = (), *, kubernetes: str = "") -> list[Finding]:
    """Return the findings about a bundle: of the default rules, and of optional suites, by the keys of `SUITES`.

    kubernetes: the version for which removed APIs are errors, in addition to `spec.minKubeVersion`.
    Raises ConfigError if there is no such folder.
    """
    reader = Reader(folder)
    bundle = reader.read()
    findings = [*reader.findings, *imageformat.check_folders(folder)]
    if not findings:
        findings += imageformat.check_metadata(folder)
    if bundle is None:
        return findings
    findings += [replace(each, suite="format") for each in reader.notes]
    findings += [*check_service_version(bundle.csv), *check_definitions(bundle), *check_bundle(bundle)]
    findings += imageformat.check_objects(bundle)
    for name in dict.fromkeys(name for each in suites for name in SUITES[each]):
        findings += _SUITES[name](bundle, kubernetes)
    return findings
