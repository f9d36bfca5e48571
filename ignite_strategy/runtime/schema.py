"""Strict reading of JSON objects: what is unknown, missing or of another type is refused with its place (pure)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ignite_strategy.errors import InvalidArgumentError

__all__ = ["checked", "checked_name"]

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")


def checked(
    data: Any, fields: Mapping[str, Any], where: str, optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Checks an object against its fields.

    Args:
      data: What was received.
      fields: Name -> type (or tuple of types) of those that must be there.
      where: What the object is, for messages.
      optional: Name -> type of those that may be there.

    Returns:
      ``data``.

    Raises:
      InvalidArgumentError: It names the field.
    """
    if not isinstance(data, dict):
        raise InvalidArgumentError(f"{where} is not a JSON object: {str(data)[:100]!r}")
    allowed = {**fields, **(optional or {})}
    unknown = sorted(map(str, set(data) - set(allowed)))
    if unknown:
        raise InvalidArgumentError(f"{where} has unknown fields: {', '.join(unknown)}")
    missing = sorted(set(fields) - set(data))
    if missing:
        raise InvalidArgumentError(f"{where} lacks the fields {', '.join(missing)}")
    for name, value in data.items():
        kind = allowed[name]
        # A JSON true is no number, although Python's bool is an int.
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InvalidArgumentError(f"field {name!r} of {where} is {value!r}")
    return data


def checked_name(text: str, what: str) -> str:
    """A name that is safe in keys and as a file name: letters, digits, ``_``, ``-`` and ``.``, not first."""
    if not _NAME.fullmatch(text):
        raise InvalidArgumentError(
            f"{text!r} is no {what}: letters, digits, '_', '-' and '.' only, at most 100"
        )
    return text
