"""Adds controllers and webhooks to main.py.

Everything else in the file stays the same, also comments and layout. A program without the Manager that `init` wrote is
not changed.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from kubewright_cli.scaffold.sources import Part, Source, assigned_call, with_import


@dataclass(frozen=True, slots=True)
class ModuleImport:
    """A module with a controller or webhooks, and its name in the program."""

    package: str
    module: str
    alias: str = ""

    @property
    def statement(self) -> str:
        renamed = f" as {self.alias}" if self.alias else ""
        return f"from {self.package} import {self.module}{renamed}"

    def reference(self, name: str = "reconcile") -> str:
        """Return how the program names what the module calls `name`."""
        return f"{self.alias or self.module}.{name}"


def with_controller(source: str, manager: str, added: ModuleImport) -> str | None:
    """Return `source` with the controller imported, and in the list of the Manager that is assigned to `manager`.

    Returns the same text if the controller is in the list already, and None if there is no such list or the name is
    taken.
    """
    return _with_entry(source, manager, "controllers", added, added.reference())


def with_webhook(source: str, manager: str, added: ModuleImport, name: str) -> str | None:
    """Return `source` with the webhook that its module calls `name`, and with a certificate for the Manager.

    Returns None if there is no Manager with arguments, if its webhooks are not a list, or if a name is taken.
    """
    edited = _with_entry(source, manager, "webhooks", added, added.reference(name))
    return edited and _with_certificate(edited, manager)


def with_registration(source: str) -> str | None:
    """Return a conftest.py whose `manager.replace(config=account)` may register webhooks.

    Returns the same text if it says how webhooks are registered, and None if there is no such call.
    """
    module = _parsed(source)
    if module is None:
        return None
    if "webhook_registration" in source:
        return source
    for call in ast.walk(module.tree):
        if isinstance(call, ast.Call) and ast.unparse(call) == "manager.replace(config=account)":
            module.append_argument(call, "webhook_registration=LocalWebhooks(config=cluster.config)")
            return with_import(module.edited(), "kubewright.webhooks", "LocalWebhooks")
    return None


def _with_entry(source: str, manager: str, argument: str, added: ModuleImport, reference: str) -> str | None:
    module = _parsed(source)
    call = assigned_call(module.tree, manager) if module is not None else None
    if module is None or call is None:
        return None
    listed = _argument(call, argument)
    if listed is None and argument == "webhooks" and (call.args or call.keywords):
        _insert_webhooks(module, call, reference)
    elif not isinstance(listed, ast.List):
        return None
    elif reference not in map(ast.unparse, listed.elts):
        module.append_item(listed, reference)
    return with_import(module.edited(), added.package, added.module, added.alias)


def _with_certificate(source: str, manager: str) -> str | None:
    module = Source(source)
    call = assigned_call(module.tree, manager)
    assert call is not None
    if _argument(call, "webhook_certificate") is not None:
        return source
    webhooks = next(each for each in call.keywords if each.arg == "webhooks")
    module.insert_argument(webhooks, call, "webhook_certificate=ManagedCertificate()")
    return with_import(module.edited(), "kubewright.webhooks", "ManagedCertificate")


def _insert_webhooks(module: Source, call: ast.Call, reference: str) -> None:
    """Insert the list of webhooks after the controllers, or at the end."""
    controllers: list[Part] = [
        *call.args[:1],
        *(each for each in call.keywords if each.arg == "controllers"),
    ]
    if not controllers:
        module.append_argument(call, f"webhooks=[{reference}]")
        return
    [behind] = controllers
    indent = module.indent(behind.lineno)
    broken = module.begins_its_line(behind)
    items = f"[\n{indent}    {reference},\n{indent}]" if broken else f"[{reference}]"
    module.insert_argument(behind, call, f"webhooks={items}")


def _argument(call: ast.Call, name: str) -> ast.expr | None:
    given = [each.value for each in call.keywords if each.arg == name]
    if not given and name == "controllers":
        given = call.args[:1]
    return given[0] if given else None


def _parsed(source: str) -> Source | None:
    try:
        return Source(source)
    except SyntaxError:
        return None
