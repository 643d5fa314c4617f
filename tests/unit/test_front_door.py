"""What can be imported from `kubewright` itself."""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import kubewright
from kubewright import markers
from kubewright.machinery import errors


def test_every_name_that_type_checkers_see_is_there_and_no_other() -> None:
    imports = [
        each
        for each in ast.walk(ast.parse(Path(kubewright.__file__).read_text()))
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("kubewright.")
    ]
    seen = {name.name: each.module for each in imports for name in each.names}
    assert sorted(seen) == sorted(kubewright.__all__)
    del seen["controller"]  # the package of that name, which can be called
    for name, module in seen.items():
        assert getattr(kubewright, name) is getattr(importlib.import_module(module or ""), name)


def test_every_marker_and_every_error_is_there() -> None:
    made = [name for name, each in vars(markers).items() if inspect.isfunction(each) and name[0].isupper()]
    raised = [
        name
        for name, each in vars(errors).items()
        if inspect.isclass(each) and issubclass(each, errors.KubewrightError)
    ]
    assert len(made) > 30
    assert [name for name in made + raised if name not in kubewright.__all__] == []
