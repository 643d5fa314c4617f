"""A finding of `kubewright doctor`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its remedy."""

    subject: str
    """What the problem is about: `cluster`, `crd/...`, an object, `rbac`, `image`, `deployment`, `pod/...`, `lease`."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.remedy}"
