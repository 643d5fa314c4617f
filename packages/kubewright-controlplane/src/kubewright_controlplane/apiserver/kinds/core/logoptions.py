"""Options of a log request.

Follows k8s.io/kubernetes pkg/apis/core/validation, ValidatePodLogOptions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubewright.machinery import time
from kubewright.machinery.errors import BadRequest, Invalid
from kubewright.machinery.fields import FieldError, forbidden, invalid
from kubewright.machinery.integers import parse_int

_NUMBERS: Final = {
    "tailLines": (0, "must be greater than or equal to 0"),
    "limitBytes": (1, "must be greater than 0"),
    "sinceSeconds": (1, "must be greater than 0"),
}


def check_log_options(query: Mapping[str, Sequence[str]]) -> None:
    """Raise BadRequest for malformed numbers and times, Invalid for values that are not allowed."""
    errors: list[FieldError] = []
    for name, (least, why) in _NUMBERS.items():
        text = query.get(name, [""])[0]
        if not text:
            continue
        try:
            number = parse_int(text)
        except ValueError as error:
            raise BadRequest(str(error)) from None
        if number < least:
            errors.append(invalid(name, number, why))
    since = query.get("sinceTime", [""])[0]
    if since:
        try:
            time.parse(since)
        except ValueError:
            form = f'as "2006-01-02T15:04:05Z07:00": cannot parse "{since}" as "2006"'
            raise BadRequest(f'parsing time "{since}" {form}') from None
        if "sinceSeconds" in query:
            errors.append(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    if errors:
        raise Invalid.of("PodLogOptions", "", "", errors)
