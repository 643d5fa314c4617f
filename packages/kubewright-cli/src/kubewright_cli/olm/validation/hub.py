"""The rules of OperatorHub: who provides the operator, links, icon, version, capability level and categories.

Follows github.com/operator-framework/api pkg/validation (OperatorHubV2Validator, StandardCapabilitiesValidator,
StandardCategoriesValidator).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from kubewright.machinery.errors import ConfigError
from kubewright_cli.olm.parts import items, mapping, text
from kubewright_cli.olm.semver import Version
from kubewright_cli.olm.validation.document import BundleDocuments, Document
from kubewright_cli.olm.validation.finding import Finding, Level
from kubewright_cli.olm.validation.serviceversions import check_min_kube_version

CATEGORIES: Final = (
    "AI/Machine Learning",
    "Application Runtime",
    "Big Data",
    "Cloud Provider",
    "Database",
    "Developer Tools",
    "Integration & Delivery",
    "Logging & Tracing",
    "Modernization & Migration",
    "Monitoring",
    "Networking",
    "Observability",
    "OpenShift Optional",
    "Security",
    "Storage",
    "Streaming & Messaging",
)
"""The categories of OperatorHub."""
_CAPABILITIES: Final = ("Basic Install", "Seamless Upgrades", "Full Lifecycle", "Deep Insights", "Auto Pilot")
"""The capability levels of the Operator Framework, from I to V."""
CATEGORIES_FILE: Final = "OPERATOR_BUNDLE_CATEGORIES"
"""The environment variable with a JSON file of other categories: `{"categories": [...]}`."""
_HUB: Final = "operatorhubv2"
_MEDIA_TYPES: Final = ("image/gif", "image/jpeg", "image/png", "image/svg+xml")
_ATOM: Final = r"[\w!#$%&'*+/=?^`{|}~-]+"
_ADDRESS: Final = re.compile(rf"(?:[^<>@,;:]*<)?{_ATOM}(?:\.{_ATOM})*@[^\s<>@,;:()]+>?|\"[^\"]*\"@[^\s<>@,;:()]+")


def check_hub(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the suite `operatorhubv2`."""
    csv = bundle.csv
    spec = csv.spec
    if not text(mapping(spec.get("provider")).get("name")).strip():
        yield _finding(csv, "provider", "spec.provider.name", "", "missing", "name who publishes the operator")
    yield from _check_maintainers(csv)
    yield from _check_links(csv)
    if _is_zero(text(spec.get("version"))):
        yield _finding(
            csv, "version-missing", "spec.version", text(spec.get("version")), "not set", 'write one like "1.2.0"'
        )
    yield from _check_icon(csv)
    yield from check_min_kube_version(csv, _HUB)


def check_capabilities(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the suite `capabilities`."""
    annotations, known = mapping(bundle.csv.metadata.get("annotations")), _CAPABILITIES
    level = annotations.get("capabilities")
    if level is not None and level not in known:
        path, remedy = 'metadata.annotations["capabilities"]', f"write one of: {', '.join(known)}"
        yield _finding(
            bundle.csv, "capabilities", path, text(level), "not a capability level", remedy, suite="capabilities"
        )


def check_categories(bundle: BundleDocuments) -> Iterator[Finding]:
    """Yield the findings of the suite `categories`. Raises ConfigError if the file of categories cannot be read."""
    given = mapping(bundle.csv.metadata.get("annotations")).get("categories")
    if given is None:
        return
    known = _categories()
    for each in text(given).split(","):
        if each.strip() not in known:
            path, remedy = 'metadata.annotations["categories"]', f"write one of: {', '.join(known)}"
            yield _finding(
                bundle.csv, "categories", path, each.strip(), "not a known category", remedy, suite="categories"
            )


def _categories() -> tuple[str, ...]:
    path = os.environ.get(CATEGORIES_FILE)
    if not path:
        return CATEGORIES
    try:
        found = mapping(json.loads(Path(path).read_text())).get("categories") or ()
    except (OSError, ValueError) as error:
        raise ConfigError(f'{CATEGORIES_FILE}: {path}: {error}; write {{"categories": ["..."]}}') from error
    return tuple(map(str, found))


def _finding(
    csv: Document,
    rule: str,
    field: str,
    value: str,
    problem: str,
    remedy: str,
    level: Level = "error",
    suite: str = _HUB,
) -> Finding:
    return Finding(level, rule, csv.file, field, value, problem, remedy, suite)


def _is_zero(version: str) -> bool:
    try:
        return Version.parse_tolerant(version) == Version(0, 0, 0)
    except ValueError:
        return True


def _check_maintainers(csv: Document) -> Iterator[Finding]:
    for place, each in enumerate(items(csv.spec.get("maintainers"))):
        path, name, email = f"spec.maintainers[{place}]", text(each.get("name")), text(each.get("email"))
        if not name or not email:
            yield _finding(csv, "maintainer", path, name or email, "needs a name and an email address", "add both")
        if email and not _ADDRESS.fullmatch(email.strip()):
            remedy = 'write one like "team@example.com"'
            yield _finding(csv, "maintainer-email", f"{path}.email", email, "not an email address", remedy)


def _check_links(csv: Document) -> Iterator[Finding]:
    for place, each in enumerate(items(csv.spec.get("links"))):
        path, name, url = f"spec.links[{place}]", text(each.get("name")), text(each.get("url"))
        if not name or not url:
            yield _finding(csv, "link", path, name or url, "needs a name and a URL", "add both")
        if url and not _is_request_uri(url):
            yield _finding(
                csv, "link-url", f"{path}.url", url, "not a URL", 'write one like "https://example.com/docs"'
            )


def _is_request_uri(url: str) -> bool:
    """Return whether `url` is absolute, or an absolute path, as Go's `url.ParseRequestURI` accepts it."""
    if re.search(r"[\x00-\x20\x7f]", url) or re.search(r"%(?![0-9A-Fa-f]{2})", url.partition("?")[0]):
        return False
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return False
    return bool(re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", url)) or url.startswith("/")


def _check_icon(csv: Document) -> Iterator[Finding]:
    icons = csv.spec.get("icon")
    if icons is None:
        yield _finding(csv, "icon-missing", "spec.icon", "", "missing", "add an icon for the catalog", "warning")
        return
    found = items(icons)
    if len(found) != 1:
        yield _finding(csv, "icons", "spec.icon", "", f"{len(found)} icons", "keep one icon")
    if not found:
        return
    kind = text(found[0].get("mediatype"))
    if not kind or not text(found[0].get("base64data")):
        yield _finding(csv, "icon-incomplete", "spec.icon[0]", "", "needs base64data and mediatype", "add both")
    if kind and kind not in _MEDIA_TYPES:
        remedy = f"write one of: {', '.join(_MEDIA_TYPES)}"
        yield _finding(csv, "icon-type", "spec.icon[0].mediatype", kind, "not a type of an icon", remedy)
