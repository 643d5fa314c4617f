"""The names that can be imported from `kubewright` itself."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
from pathlib import Path

import kubewright


def test_type_checkers_see_every_name_and_no_other() -> None:
    imports = [
        each
        for each in ast.walk(ast.parse(Path(kubewright.__file__).read_text()))
        if isinstance(each, ast.ImportFrom) and each.module and each.module.startswith("kubewright.")
    ]
    seen = {name.name: each.module for each in imports for name in each.names}
    assert sorted(seen) == sorted(kubewright.__all__)
    for name, module in seen.items():
        assert getattr(kubewright, name) is getattr(importlib.import_module(module or ""), name)


def test_the_root_has_no_name_of_the_standard_library_and_stays_small() -> None:
    assert len(kubewright.__all__) <= 40
    assert not {"Enum", "Type", "Pattern", "Required", "Format", "Time"} & set(kubewright.__all__)


def test_the_version_is_that_of_the_distribution() -> None:
    assert kubewright.__version__ == importlib.metadata.version("kubewright")
