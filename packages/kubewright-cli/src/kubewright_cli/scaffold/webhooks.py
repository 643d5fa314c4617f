"""The files that `create webhook` writes and extends."""

from __future__ import annotations

import ast
import tomllib
import typing
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.json import JSONObject
from kubewright.models import CustomResource, Object, Struct
from kubewright_cli.scaffold import plan
from kubewright_cli.scaffold.changes import Changes
from kubewright_cli.scaffold.conversion import ConversionCode, Side, conversion_code
from kubewright_cli.scaffold.names import module_name
from kubewright_cli.scaffold.program import ModuleImport, with_registration, with_webhook
from kubewright_cli.scaffold.record import FILE, Record, Resource, Webhooks
from kubewright_cli.scaffold.settings import with_extra
from kubewright_cli.scaffold.sources import (
    Source,
    assigned_call,
    bound_names,
    in_order,
    literal,
    with_import,
)
from kubewright_cli.scaffold.templates import render

_PACKAGE: Final = "webhook"
_SETTINGS: Final = "pyproject.toml"
_CONFTEST: Final = "tests/conftest.py"
_SDK: Final = "kubewright.webhooks"


@dataclass(frozen=True, slots=True)
class WebhookAddition:
    """The changes that `create webhook` makes."""

    changes: Changes
    by_hand: tuple[str, ...]
    """What the author must change in files that are not as `init` wrote them."""
    missing: tuple[str, ...]
    """Required fields whose conversion the author must write."""


@dataclass(frozen=True, slots=True)
class _Function:
    """A webhook that is one function."""

    name: str
    template: str
    imports: tuple[str, ...]


_DEFAULTER: Final = _Function("set_defaults", "webhook_defaulter.py", ("AdmissionContext", "defaulter"))
_VALIDATOR: Final = _Function("validate", "webhook_validator.py", ("AdmissionContext", "FieldError", "validator"))


def webhook(
    root: Path,
    record: Record,
    resource: Resource,
    asked: Webhooks,
    kinds: Sequence[type[Object]],
    *,
    force: bool,
) -> WebhookAddition:
    """Return the webhooks of `asked`, next to those that the resource has.

    kinds: the class of a kind that the project does not declare; for a conversion, the classes of the project.
    force: overwrite files instead of extending them.

    Raises ConfigError if a file cannot be extended.
    """
    made = _Webhooks(root, record, resource, kinds, force=force)
    if asked.admission:
        made.add_admission(asked)
    if asked.spokes:
        made.add_conversion(asked)
    return made.finish(_joined(resource.webhooks, asked))


def module_file(record: Record, resource: Resource, name: str) -> str:
    """Return the path of a module of the webhooks of a kind."""
    return plan.source(plan.module_path(record, _PACKAGE, resource.group, f"{resource.module}_{name}"))


def _joined(known: Webhooks, asked: Webhooks) -> Webhooks:
    return Webhooks(
        known.defaulting or asked.defaulting,
        known.validation or asked.validation,
        tuple(dict.fromkeys([*known.spokes, *asked.spokes])),
        asked.defaulting_path or known.defaulting_path,
        asked.validation_path or known.validation_path,
    )


class _Webhooks:
    """The changes to a project, and what is left to its author."""

    def __init__(
        self, root: Path, record: Record, resource: Resource, kinds: Sequence[type[Object]], *, force: bool
    ) -> None:
        self._changes = Changes(root)
        self._by_hand: list[str] = []
        self._unserved: list[tuple[ModuleImport, str]] = []
        """The webhooks that could not be added to the Manager."""
        self._missing: tuple[str, ...] = ()
        self._has_package = False
        self._root = root
        self._record = record
        self._resource = resource
        self._kinds = kinds
        self._force = force
        self._main_path = f"src/{record.package}/main.py"
        self._main = self._text(self._main_path)

    def add_admission(self, asked: Webhooks) -> None:
        resource, known = self._resource, self._resource.webhooks
        module = self._module(resource.version)
        path, test = module_file(self._record, resource, resource.version), self._test(f"{resource.version}_webhook")
        extend = known.admission and not self._force
        wanted = asked if extend else _joined(known, asked)
        functions = [
            each for each, given in ((_DEFAULTER, wanted.defaulting), (_VALIDATOR, wanted.validation)) if given
        ]
        values = self._values(wanted, module, functions)
        self._write(path, "webhook.py", values, functions if extend else [])
        self._write(test, "test_webhook.py", values, functions if extend else [])
        for each in functions:
            self._serve(module, each.name)

    def add_conversion(self, asked: Webhooks) -> None:
        resource, known = self._resource, self._resource.webhooks
        module = self._module("conversion")
        path = module_file(self._record, resource, "conversion")
        extend = bool(known.spokes) and not self._force and (self._root / path).is_file()
        spokes = asked.spokes if extend else _joined(known, asked).spokes
        hub = self._side(resource.version)
        sides = [self._side(each) for each in spokes]
        codes = [conversion_code(each, hub) for each in sides]
        arguments = [_spoke(side, code) for side, code in zip(sides, codes, strict=True)]
        if extend:
            text = _with_spokes(self._text(path), path, [hub, *sides], codes, arguments)
            self._changes.edit(path, text)
        else:
            imports = [f"from {package} import {name} as {alias}" for package, name, alias in _imports([hub, *sides])]
            values = {
                "kind": resource.kind,
                "hub": hub.name,
                "hub_class": hub.kind.__qualname__,
                "imports": imports,
                "codes": codes,
                "spokes": arguments,
            }
            self._changes.create(path, render("webhook_conversion.py", **values))
        if not known.spokes or self._force:
            self._add_conversion_test(module)
        self._missing = tuple(name for each in codes for name in each.missing)
        self._serve(module, "conversion")

    def finish(self, webhooks: Webhooks) -> WebhookAddition:
        """Plan the files that all webhooks share."""
        if self._main != self._text(self._main_path):
            self._changes.edit(self._main_path, self._main)
        if self._unserved:
            self._explain_unserved()
        self._edit_conftest()
        self._edit_settings()
        self._changes.edit(FILE, self._record.having(replace(self._resource, webhooks=webhooks)).text())
        return WebhookAddition(self._changes, tuple(self._by_hand), self._missing)

    def _add_conversion_test(self, module: ModuleImport) -> None:
        resource = self._resource
        values = {
            "kind": resource.kind,
            "module": f"{module.package}.{module.module}",
            "namespaced": resource.namespaced,
            "sample_prefix": resource.api_group.partition(".")[0],
        }
        self._changes.create(self._test("conversion"), render("test_conversion.py", **values))

    def _module(self, name: str) -> ModuleImport:
        """Return a module of the package of webhooks, and plan the packages above it."""
        resource = self._resource
        path = plan.module_path(self._record, _PACKAGE, resource.group, f"{resource.module}_{name}")
        if not self._has_package:
            plan.packages(self._root, self._changes, path)
            self._has_package = True
        package, _, module = path.rpartition(".")
        in_group = self._record.multigroup and resource.group
        return ModuleImport(package, module, f"{module_name(resource.group)}_{module}" if in_group else "")

    def _test(self, name: str) -> str:
        group = f"{module_name(self._resource.group)}_" if self._record.multigroup and self._resource.group else ""
        return f"tests/test_{group}{self._resource.module}_{name}.py"

    def _values(self, wanted: Webhooks, module: ModuleImport, functions: Sequence[_Function]) -> dict[str, object]:
        resource = self._resource
        return {
            "kind": resource.kind,
            "path": resource.path,
            "module": f"{module.package}.{module.module}",
            "package": self._record.package,
            "names": in_order({name for each in functions for name in each.imports}),
            "functions": in_order({each.name for each in functions}),
            "api": resource.api,
            "namespaced": resource.namespaced,
            "defaulting": wanted.defaulting,
            "validation": wanted.validation,
            "defaulter_arguments": self._arguments("m", wanted.defaulting_path),
            "validator_arguments": self._arguments("v", wanted.validation_path),
            "object": 'sample("default")' if resource.api else "example()",
            "sample": plan.sample(resource),
            "example": "" if resource.api else literal(_smallest(self._kinds[0]), 8),
        }

    def _arguments(self, letter: str, path: str) -> str:
        """Return the arguments of a decorator after the kind."""
        resource = self._resource
        name = ""
        same = (resource.kind.lower(), resource.version)
        for each in self._record.resources:
            if each.group != resource.group and (each.kind.lower(), each.version) == same and each.webhooks.admission:
                group = resource.api_group
                domain = group if "." in group else f"{group or 'core'}.k8s.io"
                name = f', name="{letter}{same[0]}-{same[1]}.{domain}"'
        return f"{name}{f', path={path!r}' if path else ''}".replace("'", '"')

    def _write(self, path: str, template: str, values: dict[str, object], functions: Sequence[_Function]) -> None:
        """Plan a file, or an existing one with more functions."""
        is_test = template.startswith("test_")
        if not functions or not (self._root / path).is_file():
            self._changes.create(path, render(template, **values))
            return
        text = self._text(path)
        for each in functions:
            own = [(str(values["path"]), self._resource.kind)]
            if is_test:
                imports = [*own, (str(values["module"]), each.name), ("kubewright.testing", "review")]
                code = render(f"test_{each.template}", **values)
            else:
                imports = [*own, *((_SDK, name) for name in each.imports)]
                code = render(each.template, **values)
            text = _with_code(text, path, imports, code)
        self._changes.edit(path, text)

    def _serve(self, module: ModuleImport, name: str) -> None:
        """Give the Manager a webhook, and a certificate."""
        edited = with_webhook(self._main, "manager", module, name)
        if edited is None:
            self._unserved.append((module, name))
        else:
            self._main = edited

    def _explain_unserved(self) -> None:
        imports = "".join(f"  {each}\n" for each in dict.fromkeys(module.statement for module, _ in self._unserved))
        webhooks = ", ".join(module.reference(name) for module, name in self._unserved)
        self._by_hand.append(
            f"{self._main_path} has changed since `kubewright init` wrote it, and was not edited. Add these lines to "
            f"it:\n\n{imports}  from {_SDK} import ManagedCertificate\n\n  and to the Manager: webhooks=[{webhooks}], "
            "webhook_certificate=ManagedCertificate()"
        )

    def _edit_conftest(self) -> None:
        text = self._text(_CONFTEST)
        edited = with_registration(text)
        if edited is None:
            self._by_hand.append(
                f"{_CONFTEST} has no manager.replace(config=account), and was not edited. Where tests run the Manager "
                "with its own permissions, add webhook_registration=LocalWebhooks(config=cluster.config)"
            )
        elif edited != text:
            self._changes.edit(_CONFTEST, edited)

    def _edit_settings(self) -> None:
        text = self._text(_SETTINGS)
        try:
            edited = with_extra(text, "kubewright", "tls")
        except tomllib.TOMLDecodeError as error:
            raise ConfigError(f"{_SETTINGS}: {error}; nothing was written") from error
        if edited is None:
            self._by_hand.append(f"{_SETTINGS} was not edited. The certificate needs a dependency: kubewright[tls]")
        elif edited != text:
            self._changes.edit(_SETTINGS, edited)

    def _side(self, version: str) -> Side:
        resource = self._resource
        wanted = (resource.api_group, resource.kind, version)
        for each in self._kinds:
            api = each.__api__
            if (api.group, api.kind, api.version) == wanted and issubclass(each, CustomResource):
                return Side(each, version)
        raise ConfigError(
            f"{resource.kind} of {resource.api_group}/{version} is in PROJECT, but no class declares it; write the "
            "class in the package api, or remove the version from PROJECT"
        )

    def _text(self, path: str) -> str:
        """Return the text of a file of the project; empty if it does not exist."""
        try:
            return (self._root / path).read_text() if (self._root / path).is_file() else ""
        except UnicodeDecodeError as error:
            raise ConfigError(f"{path}: {error}; nothing was written") from error


def _spoke(side: Side, code: ConversionCode) -> str:
    there, back = code.names
    return f"Spoke({side.name}.{side.kind.__qualname__}, convert_to={there}, convert_from={back})"


def _imports(sides: Sequence[Side]) -> list[tuple[str, str, str]]:
    """Return the package, the name and the alias of each version's module."""
    modules = [(*each.kind.__module__.rpartition("."), each.name) for each in sides]
    return sorted((package, module, alias) for package, _, module, alias in modules)


def _with_code(text: str, path: str, imports: Sequence[tuple[str, str]], code: str) -> str:
    """Return a module with more imports and functions."""
    added = {each.name for each in Source(code).tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    if taken := sorted(added & bound_names(_parsed(text, path).tree)):
        raise ConfigError(
            f"{path} has a {taken[0]} already, and was not edited; rename it, or overwrite it with --force"
        )
    for package, name in imports:
        text = _with_import(text, path, package, name)
    return f"{text.rstrip()}\n\n\n{code}"


def _with_spokes(
    text: str, path: str, sides: Sequence[Side], codes: Sequence[ConversionCode], arguments: Sequence[str]
) -> str:
    """Return the module of a conversion with more versions."""
    module = _parsed(text, path)
    call = assigned_call(module.tree, "conversion")
    if call is None or not call.args:
        raise ConfigError(
            f"{path} has no `conversion = Conversion(...)`, and was not edited; --force overwrites it. To add to it by "
            f"hand: {', '.join(arguments)}"
        )
    statement = next(each for each in module.tree.body if each.lineno <= call.lineno <= (each.end_lineno or 0))
    module.insert(module.offset(statement.lineno, 0), "".join(f"{each.text}\n\n" for each in codes))
    module.append_argument(call, ", ".join(arguments))
    text = module.edited()
    for package, name, alias in _imports(sides):
        text = _with_import(text, path, package, name, alias)
    return text


def _with_import(text: str, path: str, package: str, name: str, alias: str = "") -> str:
    edited = with_import(text, package, name, alias)
    if edited is None:
        raise ConfigError(
            f"{path} uses the name {alias or name} for another thing than {package}.{name}, and was not edited; rename "
            "it, or overwrite the file with --force"
        )
    return edited


def _parsed(text: str, path: str) -> Source:
    try:
        return Source(text)
    except SyntaxError as error:
        raise ConfigError(f"{path}, line {error.lineno}: {error.msg}; nothing was written") from error


def _smallest(kind: type[Object]) -> JSONObject:
    """Return an object with the fields that its class requires."""
    api = kind.__api__
    head: JSONObject = {"apiVersion": api.api_version, "kind": api.kind}
    metadata = {"name": "example"} | ({"namespace": "default"} if api.namespaced else {})
    return head | {"metadata": metadata} | {name: each for name, each in _required(kind).items() if name not in head}


def _required(struct: type[Struct]) -> JSONObject:
    return {each.encode_name: _value(each.type) for each in msgspec.structs.fields(struct) if each.required}


def _value(annotation: Any) -> Any:
    """Return a value of a required field."""
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _value(typing.get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, Struct):
        return _required(annotation)
    empty: dict[Any, Any] = {list: [], dict: {}, int: 1, bool: False}
    return empty.get(origin or annotation, "example")
