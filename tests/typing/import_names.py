"""Imports from the packages, as type checkers see them: public names exist, and a typo is an error."""

from __future__ import annotations

from kubewright import Managr  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from kubewright.testing import Clustre  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

del Managr, Clustre
