"""Valid names of projects, groups, versions and kinds.

Each check returns the errors of a value, and nothing for a valid one. The rules are those of the API server, and those
of objects and Python modules whose names follow from the value.
"""

from __future__ import annotations

import keyword
import re
import sys
from typing import Final

from kubewright.machinery.names import dns1035_label, dns1123_subdomain

_LONGEST_SUFFIX: Final = "-controller-manager-metrics-service"
"""The longest suffix after the name of the project. It makes a Service name, which is a DNS label."""
_LONGEST_PROJECT: Final = 63 - len(_LONGEST_SUFFIX)
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_OURS: Final = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_LABEL_FAULT: Final = 'must consist of lower-case letters, digits and "-", begin with a letter, and not end with "-"'
_DOMAIN_FAULT: Final = "must be a domain name in lower case, like example.com"
_USED_BY_THE_FILES: Final = frozenset({"Annotated", "Condition", "Context", "CustomResource", "Model", "PrintColumn"})


def project_errors(name: str) -> list[str]:
    """Return what is wrong with a project name, the prefix of object names and the name of the Python package."""
    if len(name) > _LONGEST_PROJECT:
        return [
            f"must have at most {_LONGEST_PROJECT} characters: a Service is named {name}{_LONGEST_SUFFIX}, "
            "and its name is at most 63 characters long"
        ]
    if dns1035_label(name):
        return [_LABEL_FAULT]
    package = package_name(name)
    if package in sys.stdlib_module_names or package in ("kubewright", "tests"):
        return [f'makes the Python package "{package}", which would hide another module; choose another name']
    if keyword.iskeyword(package):
        return [f'makes the Python package "{package}", which is a keyword; choose another name']
    return []


def domain_errors(domain: str) -> list[str]:
    """Return what is wrong with the domain of API groups."""
    return [_DOMAIN_FAULT] if dns1123_subdomain(domain) else []


def group_errors(group: str, domain: str) -> list[str]:
    """Return what is wrong with a group. Its API group is `group.domain`, or the domain if the group is empty."""
    name = qualified_group(group, domain)
    if dns1123_subdomain(name):
        return [_DOMAIN_FAULT.replace("example.com", "ship")]
    if "." not in name:
        return [f'makes the API group "{name}", which must have at least two parts; pass --group']
    if f".{group}".endswith(f".{domain}"):
        shorter = group.removesuffix(domain).rstrip(".")
        remedy = f"pass --group {shorter}" if shorter else "omit --group"
        return [f'ends with the domain of the project, which makes the API group "{name}"; {remedy}']
    if _OURS.search(name):
        return [f'makes the API group "{name}"; *.k8s.io and *.kubernetes.io belong to Kubernetes']
    return []


def version_errors(version: str) -> list[str]:
    """Return what is wrong with a version."""
    return [] if _VERSION.fullmatch(version) else ["must be a version like v1, v1beta1 or v2alpha3"]


def kind_errors(kind: str) -> list[str]:
    """Return what is wrong with a kind."""
    if not _KIND.fullmatch(kind):
        return ["must be in CamelCase, with letters and digits only, like WebServer"]
    if len(kind) > 63:
        return ["must have at most 63 characters"]
    if keyword.iskeyword(kind) or kind in _USED_BY_THE_FILES:
        return [f"is a name that Python or the modules of a project use; choose another, like {kind}Resource"]
    return []


def plural_errors(plural: str) -> list[str]:
    """Return what is wrong with a plural, which is part of URLs."""
    return [_LABEL_FAULT] if dns1035_label(plural) else []


def qualified_group(group: str, domain: str) -> str:
    """Return the API group's name: `ship.example.com`, or the domain itself."""
    return ".".join(filter(None, (group, domain)))


def package_name(project: str) -> str:
    """Return the Python package of a project: `webserver_operator` for `webserver-operator`."""
    return project.replace("-", "_")


def module_name(name: str) -> str:
    """Return the module name of a group or kind: `sea_creatures` for `sea-creatures`, `webserver` for `WebServer`."""
    module = re.sub(r"[-.]", "_", name.lower())
    module = f"_{module}" if module[:1].isdigit() else module
    return f"{module}_" if keyword.iskeyword(module) else module
