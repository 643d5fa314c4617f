"""`kubewright` alone, as an operator's image has it: without the other two distributions."""

from __future__ import annotations

import subprocess
import sys

WITHOUT = """
import sys

class Refused:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("kubewright_controlplane", "kubewright_cli"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refused())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name.startswith("kubewright_c") else found(name, package)

from typing import Annotated
from kubewright import CustomResource, Manager, Model, controller, markers as m
from kubewright.models import custom_resource_definition

class WidgetSpec(Model):
    size: Annotated[int, m.Minimum(0)] = 1

class Widget(CustomResource, group="example.com", version="v1"):
    spec: WidgetSpec
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", WITHOUT + program], capture_output=True, text=True, check=False)


def test_an_operator_and_its_crd_need_kubewright_alone() -> None:
    done = run("print(custom_resource_definition(Widget)['metadata']['name'])")
    assert done.stdout == "widgets.example.com\n", done.stderr


def test_validation_says_which_distribution_has_the_rules() -> None:
    done = run("Widget.validate({'spec': {'size': -1}})")
    assert "pip install kubewright-controlplane" in done.stderr


def test_the_command_says_what_to_install() -> None:
    done = run("import runpy; runpy.run_module('kubewright')")
    assert "pip install 'kubewright[dev]'" in done.stderr
