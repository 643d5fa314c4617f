"""What `kubewright levels` cannot know of this operator: it has no Manager, and runs as a process."""

from pathlib import Path

from kubewright.testing.levels import Declaration, python_module

PROJECT = Path(__file__).parents[1]

declaration = Declaration(program=python_module("sample_controller.main", folder=PROJECT))
