"""Documents as JSON gives them: the names under which raw objects pass through signatures."""

from __future__ import annotations

from typing import Any, TypeAlias

JSONObject: TypeAlias = dict[str, Any]
"""A JSON object whose shape its schema knows and Python does not."""
