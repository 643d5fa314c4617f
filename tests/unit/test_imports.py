"""The modules that an operator loads: no server, no command line, and no unused library."""

from __future__ import annotations

import json
import subprocess
import sys

SERVER = (
    "kubewright_controlplane.apiserver",
    "kubewright_controlplane.controllers",
    "kubewright_controlplane.schema",
    "kubewright_cli",
    "kubewright.testing",
)

HEAVY = (
    "click", "cryptography", "h11", "jinja2", "opentelemetry", "prometheus_client", "pytest", "re2", "sqlite3",
    "uvloop", "wsproto", "yaml", "bz2", "email", "hashlib", "http", "json.decoder", "lzma", "multiprocessing",
    "pkgutil", "shutil", "sysconfig", "tempfile", "unittest", "urllib.request", "xml", "zipfile",
)  # fmt: skip
"""Modules that are loaded when needed: for the first scrape, the first kubeconfig, or the event loop."""

OPERATOR = """
from kubewright import Context, CustomResource, Manager, Model, controller, field
from kubewright.apis.apps.v1 import Deployment

class WidgetSpec(Model):
    size: int

class Widget(CustomResource, group="example.com", version="v1"):
    spec: WidgetSpec

@controller(Widget, owns=[Deployment])
async def reconcile(ctx: Context[Widget]) -> None: ...

Manager(controllers=[reconcile])
"""


def test_an_operator_loads_nothing_of_the_server_or_the_command_line() -> None:
    assert not within(loaded_by(OPERATOR), SERVER)


def test_an_operator_loads_no_heavy_library_before_it_needs_it() -> None:
    assert not within(loaded_by(OPERATOR), HEAVY)


def test_an_operator_loads_only_the_built_in_kinds_that_it_names_and_their_dependencies() -> None:
    kinds = within(loaded_by(OPERATOR), ("kubewright.apis",))
    assert "kubewright.apis.apps.v1" in kinds
    assert not within(kinds, ("kubewright.apis.batch", "kubewright.apis.rbac", "kubewright.apis.storage"))


def test_an_operator_that_names_no_built_in_kind_loads_only_that_of_its_lease() -> None:
    names_none = OPERATOR.replace("from kubewright.apis.apps.v1 import Deployment", "").replace("Deployment", "")
    kinds = within(loaded_by(names_none), ("kubewright.apis",))
    assert not within(kinds, ("kubewright.apis.core", "kubewright.apis.events", "kubewright.apis.apps"))


def test_an_operator_without_webhooks_loads_nothing_of_them() -> None:
    others = ("kubewright.webhooks", "kubewright.policies", "kubewright.apis.admissionregistration")
    assert not within(loaded_by(OPERATOR), others)


WEBHOOKS = f"""{OPERATOR}
from kubewright.webhooks import AdmissionContext, validator

@validator(Widget)
def check(ctx: AdmissionContext[Widget]) -> None: ...

Manager(webhooks=[check])
"""


def test_webhooks_load_no_built_in_kinds_and_no_heavy_library() -> None:
    loaded = loaded_by(WEBHOOKS)
    assert not within(loaded, ("kubewright.apis.admissionregistration", "kubewright.apis.apiextensions", *HEAVY))
    assert not within(loaded, SERVER)


POLICIES = f"""{OPERATOR}
import importlib.util
importlib.util.find_spec = lambda name, package=None: None

from kubewright.policies import ValidatingPolicy, Validation

Manager(policies=[ValidatingPolicy("a", Widget, validations=[Validation("object.spec.size > 1")])])
"""
"""Without the control plane, as in an operator's image."""


def test_policies_load_no_built_in_kinds_and_no_heavy_library() -> None:
    loaded = loaded_by(POLICIES)
    assert "kubewright.policies" in loaded
    assert not within(loaded, ("kubewright.apis.admissionregistration", *HEAVY, *SERVER))


def test_importing_the_front_door_loads_no_other_part_and_no_library() -> None:
    loaded = loaded_by("import kubewright")
    assert within(loaded, ("kubewright",)) == {"kubewright"}
    assert not within(loaded, ("asyncio", "msgspec", "ssl", *HEAVY))


def test_importing_the_server_loads_nothing_of_the_client_side() -> None:
    loaded = loaded_by("import kubewright_controlplane.apiserver.server")
    client_side = ("client", "cache", "controller", "manager", "models", "apis", "controlplane", "cli", "testing")
    assert not within(loaded, tuple(f"kubewright.{package}" for package in client_side))


def loaded_by(program: str) -> set[str]:
    """Return the modules that a fresh interpreter has loaded after `program`, beyond those that it always loads."""
    return _modules_after(program) - _modules_after("pass")


def within(modules: set[str], packages: tuple[str, ...]) -> set[str]:
    return {module for module in modules if any(f"{module}.".startswith(f"{package}.") for package in packages)}


def _modules_after(program: str) -> set[str]:
    told = f"{program}\nimport json, sys\nprint(json.dumps(list(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))
