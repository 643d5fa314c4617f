"""Which names a project and its kinds may have.

Each check gives the faults it found, none when the value is good. They are the API server's own rules, and what follows
for objects and Python modules whose names are made from these: better told now than by a cluster.
"""

from __future__ import annotations

import keyword
import re
import sys
from typing import Final

from kubewright.machinery.names import dns1035_label, dns1123_subdomain

_LONGEST_SUFFIX: Final = "-controller-manager-metrics-service"
"""Of the names that a deployment's objects get from the project's; a Service's name is a DNS label."""
_LONGEST_PROJECT: Final = 63 - len(_LONGEST_SUFFIX)
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?")
_KIND: Final = re.compile(r"[A-Z][A-Za-z0-9]*")
_OURS: Final = re.compile(r"(^|\.)(k8s|kubernetes)\.io$")
_LABEL_FAULT: Final = 'must be of lower-case letters, digits and "-", and begin with a letter and not end with a "-"'
_DOMAIN_FAULT: Final = "must be a domain name in lower case, like example.com"
_USED_BY_THE_FILES: Final = frozenset({"Annotated", "Condition", "Context", "CustomResource", "Model", "PrintColumn"})


def project_faults(name: str) -> list[str]:
    """Of a project's name: it begins the names of the deployment's objects, and names the Python package."""
    if len(name) > _LONGEST_PROJECT:
        return [
            f"must be no more than {_LONGEST_PROJECT} characters: a Service is named {name}{_LONGEST_SUFFIX}, "
            "and its name is at most 63 characters long"
        ]
    if dns1035_label(name):
        return [_LABEL_FAULT]
    package = package_name(name)
    if package in sys.stdlib_module_names or package in ("kubewright", "tests"):
        return [f'names the Python package "{package}", and others import a module of that name; choose another']
    if keyword.iskeyword(package):
        return [f'names the Python package "{package}", which is a keyword; choose another']
    return []


def domain_faults(domain: str) -> list[str]:
    """Of the domain that the names of API groups end with."""
    return [_DOMAIN_FAULT] if dns1123_subdomain(domain) else []


def group_faults(group: str, domain: str) -> list[str]:
    """Of a group that is to be served as `group.domain`, or as the domain when it is empty."""
    name = qualified_group(group, domain)
    if dns1123_subdomain(name):
        return [_DOMAIN_FAULT.replace("example.com", "ship")]
    if "." not in name:
        return [f'makes the API group "{name}", which has to be a domain of at least two parts; give a group']
    if _OURS.search(name):
        return [f'makes the API group "{name}"; *.k8s.io and *.kubernetes.io are Kubernetes\' own']
    return []


def version_faults(version: str) -> list[str]:
    """Of a version: one that the API server knows to order."""
    return [] if _VERSION.fullmatch(version) else ["must be like v1, v1beta1 or v2alpha3"]


def kind_faults(kind: str) -> list[str]:
    """Of a kind."""
    if not _KIND.fullmatch(kind):
        return ["must be in CamelCase, of letters and digits, like WebServer"]
    if len(kind) > 63:
        return ["must be no more than 63 characters"]
    if keyword.iskeyword(kind) or kind in _USED_BY_THE_FILES:
        return [f"is a name that Python or the modules of a project use; {kind}Resource would do"]
    return []


def plural_faults(plural: str) -> list[str]:
    """Of a kind's plural, which its URLs have."""
    return [_LABEL_FAULT] if dns1035_label(plural) else []


def qualified_group(group: str, domain: str) -> str:
    """The API group's name: `ship.example.com`, or the domain itself."""
    return ".".join(filter(None, (group, domain)))


def package_name(project: str) -> str:
    """The Python package of a project: `webserver-operator` has `webserver_operator`."""
    return project.replace("-", "_")


def module_name(name: str) -> str:
    """A group or kind as the name of a module: `sea-creatures` is `sea_creatures`, `WebServer` is `webserver`."""
    module = re.sub(r"[-.]", "_", name.lower())
    module = f"_{module}" if module[:1].isdigit() else module
    return f"{module}_" if keyword.iskeyword(module) else module
