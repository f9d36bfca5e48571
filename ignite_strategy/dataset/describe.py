"""From what a server says and a sample shows to columns, and to the reasons why some of it cannot be one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ignite_strategy import _core
from ignite_strategy.dataset.columns import Column, type_table

__all__ = ["Found", "decided", "describe"]

_OBJECT, _DATE, _COLLECTION, _ENUM = 103, 11, 24, 28
# Codes that are read alike, as native/binary/types.cc has them.
_FAMILY = {0xFE: _DATE, 38: _ENUM, 23: _COLLECTION, 27: _OBJECT}
# What CREATE TABLE calls the type of the values if it is not told.
_GENERATED = re.compile(r"_[0-9a-f]{8}(_[0-9a-f]{4}){3}_[0-9a-f]{12}$")


@dataclass
class Found:
    """What is known of a cache's columns.

    Attributes:
      columns: Those that can be read.
      problems: Column name -> why it cannot be.
      unseen: The names of problems that a look at more rows may solve.
      value_type: For native code: (type code, type id, whether values of other types are skipped); ``None`` = any.
    """

    columns: list[Column] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    unseen: set[str] = field(default_factory=set)
    value_type: tuple[int, int, bool] | None = None

    def silent(self) -> bool:
        """Whether nothing at all is known of the keys, or of the values."""
        parts = {column.path[0] for column in self.columns} | {name.split(".")[0] for name in self.problems}
        return not {"key", "val"} <= parts


def decided(facts: Mapping[str, Any], found: Found) -> bool:
    """Whether more rows would tell nothing new: one query entity, and every column is known."""
    return len(facts["entities"]) == 1 and not found.unseen and not found.silent()


def describe(facts: Mapping[str, Any], wanted_type: str | None) -> Found:
    """Finds the columns; ``facts`` is what ``_core.discover`` returns, and is changed."""
    found = Found()
    value = _value(facts, wanted_type, found)
    key = facts["key"]
    entity = _entity(facts, value)
    if entity is not None:
        _merge(key, entity, facts, "key")
        if value is not None:
            _merge(value, entity, facts, "val")
    _walk(("key",), key, found)
    if value is not None:
        _walk(("val",), value, found)
    return found


def _empty(declared: int = 0) -> dict[str, Any]:
    return {
        "codes": set(),
        "nulls": 0,
        "values": 0,
        "declared": declared,
        "types": set(),
        "fields": {},
        "parts": {},
    }


def _value(facts: Mapping[str, Any], wanted: str | None, found: Found) -> dict[str, Any] | None:
    """The description of the values of the type that is read; none if that is not decided."""
    table = type_table()
    choices: dict[str, tuple[int, int, dict[str, Any]]] = {}
    for type_id, description in facts["objects"].items():
        choices[", ".join(sorted(description["types"]))] = (_OBJECT, type_id, description)
    for code in facts["val"]["codes"]:
        choices[table[code].name] = (code, 0, {**facts["val"], "codes": {code}})
    by_class = {entry.java: (code, entry.name) for code, entry in table.items() if entry.java}
    for entity in facts["entities"]:
        name = entity["value_type"]
        code, shown = by_class.get(name, (_OBJECT, name))
        if name != "java.lang.Object" and not (choices and wanted is None):
            choices.setdefault(shown, (code, _type_id(name) if code == _OBJECT else 0, _empty(code)))
    if wanted is not None:
        if wanted in facts["types"] and wanted not in choices:
            description = _empty(_OBJECT)
            for name, code in facts["types"][wanted].items():
                description["fields"][name] = _empty(code)
            choices[wanted] = (_OBJECT, _type_id(wanted), description)
        matching = [name for name in choices if name == wanted] or [
            name for name in choices if name.rsplit(".", 1)[-1] == wanted
        ]
        if len(matching) != 1:
            there = f"; there are: {', '.join(sorted(choices))}" if choices else ""
            found.problems["val"] = f"has no values of type={wanted!r}{there}"
            return None
        code, type_id, description = choices[matching[0]]
        found.value_type = (code, type_id, True)
        return description
    if not choices:
        return dict(facts["val"]) if facts["val"]["nulls"] else _empty()
    if len(choices) > 1:
        names = sorted(choices)
        found.problems["val"] = (
            f"holds values of several types: {' and '.join(names)}; choose one with type={names[0]!r}"
        )
        return None
    ((code, type_id, description),) = choices.values()
    found.value_type = (code, type_id, False)
    return description


def _type_id(name: str) -> int:
    return _core.java_lower_hash(name)


def _entity(facts: Mapping[str, Any], value: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """The query entity of these values, with its table's columns as they are now."""
    entities = facts["entities"]
    if value is not None and value["types"]:
        entities = [each for each in entities if each["value_type"] in value["types"]] or entities
    return entities[0] if len(entities) == 1 else None


def _merge(
    description: dict[str, Any], entity: Mapping[str, Any], facts: Mapping[str, Any], part: str
) -> None:
    """Adds what SQL and the type's metadata know and no sampled row showed; takes away what ALTER TABLE dropped."""
    type_name = entity["key_type" if part == "key" else "value_type"]
    codes = {entry.java: code for code, entry in type_table().items() if entry.java}
    if type_name == "java.lang.Object":
        return  # anything: tells nothing
    if type_name in codes:
        description["declared"] = codes[type_name]
        return
    if description["codes"] - {_OBJECT}:
        return
    description["declared"] = _OBJECT
    fields = description["fields"]
    for name, code in facts["types"].get(type_name, {}).items():
        fields.setdefault(name, _empty(code))
    live = {name.lower(): java for kind, name, java in facts["columns"] if kind == entity["value_type"]}
    _drop(fields, entity, live)
    own = {name.lower(): name for name in fields}
    for name, java in _columns(entity, live, part):
        code = codes.get(java, _OBJECT)
        if name.lower() not in own:
            fields[name] = _empty(code)
        elif fields[own[name.lower()]]["declared"] in (0, _OBJECT) and code != _OBJECT:
            # SQL DATE is an object to the metadata, and a date to SQL.
            fields[own[name.lower()]]["declared"] = code


def _drop(fields: dict[str, Any], entity: Mapping[str, Any], live: Mapping[str, str]) -> None:
    """Takes away the columns that a table had once."""
    if not live:
        return
    once = {name.lower() for name, *_ in entity["fields"]}
    made_by_sql = bool(_GENERATED.search(entity["value_type"]))
    for name in list(fields):
        gone = _column_name(entity, name) not in live and (name.lower() in once or made_by_sql)
        if gone and "." not in name:
            del fields[name]


def _column_name(entity: Mapping[str, Any], field_name: str) -> str:
    """What SQL calls a field, in lower case."""
    alias: str = entity["aliases"].get(field_name, field_name)
    return alias.lower()


def _columns(entity: Mapping[str, Any], live: Mapping[str, str], part: str) -> list[tuple[str, str]]:
    """The table's columns that are fields of the key or of the value, with their Java classes."""
    ends = (entity["key_field"], entity["value_field"])
    columns = []
    known = set()
    for name, java, is_key in entity["fields"]:
        known |= {name.lower(), _column_name(entity, name)}
        if live and _column_name(entity, name) not in live:
            continue
        # A name with dots reaches into a nested object, whose own metadata tells more.
        if is_key == (part == "key") and name not in ends and "." not in name:
            columns.append((name, java))
    if part == "val":
        # ALTER TABLE ADD COLUMN adds to the value; SQL shows names in capitals, and that is what it writes.
        known |= {name.lower() for name in ends}
        columns += [(name.upper(), java) for name, java in live.items() if name not in known]
    return columns


def _walk(
    path: tuple[str, ...],
    description: Mapping[str, Any],
    found: Found,
    repeated: int = 0,
    is_map: bool = False,
) -> None:
    codes = {_FAMILY.get(code, code) for code in description["codes"]}
    sampled = bool(codes)
    codes = codes or ({_FAMILY.get(description["declared"], description["declared"])} - {0})
    if not codes and not description["nulls"]:
        return
    name = ".".join(path)
    table = type_table()
    problem, unseen = None, False
    if not codes:
        problem, unseen = "is NULL in every sampled row, and nothing else tells its type", True
    elif len(codes) > 1:
        problem = f"holds values of several types: {' and '.join(sorted(table[code].name for code in codes))}"
    elif description.get("opaque"):
        problem = "holds a Java-serialized object, which cannot be a column"
    elif description.get("deep"):
        problem = "holds objects within objects, further than the 32 levels that are looked at"
    elif description.get("cyclic"):
        problem = "refers to an object that it is part of"
    else:
        (code,) = codes
        problem, unseen = _kind(path, code, sampled, description, found, repeated, is_map)
    if problem is not None:
        found.problems[name] = problem
        if unseen:
            found.unseen.add(name)


def _kind(
    path: tuple[str, ...],
    code: int,
    sampled: bool,
    description: Mapping[str, Any],
    found: Found,
    repeated: int,
    is_map: bool,
) -> tuple[str | None, bool]:
    """Adds the columns of a value of one type, or returns what is wrong and whether more rows may help."""
    entry = type_table().get(code)
    if entry is None:
        return f"has the unknown type code {code}", False
    if entry.kind == "scalar":
        found.columns.append(Column(path, code, repeated=repeated, is_map=is_map))
        return None, False
    if entry.kind == "object":
        return _object(path, sampled, description, found, repeated, is_map)
    if entry.kind == "unsupported":
        return f"is {_a(entry.name)}, which cannot be a column", False
    if repeated:
        return f"is {_a(entry.name)} within a collection or map: more than one ragged dimension", False
    if entry.kind == "array":
        found.columns.append(Column(path, code))
        return None, False
    if not sampled:
        return f"is declared as {_a(entry.name)} and no sampled row has a value there", True
    if entry.kind == "map":
        for part in ("keys", "values"):
            inner = (*path, part)
            _part(inner, description["parts"].get(part), found, len(path), True)
        return None, False
    _part(path, description["parts"].get("items"), found, len(path), False)
    return None, False


def _part(
    path: tuple[str, ...], description: Mapping[str, Any] | None, found: Found, repeated: int, is_map: bool
) -> None:
    if description is None or not description["codes"]:
        name = ".".join(path)
        found.problems[name] = "has no item in any sampled row, and nothing else tells the type of its items"
        found.unseen.add(name)
        return
    _walk(path, description, found, repeated, is_map)


def _object(
    path: tuple[str, ...],
    sampled: bool,
    description: Mapping[str, Any],
    found: Found,
    repeated: int,
    is_map: bool,
) -> tuple[str | None, bool]:
    if description.get("unnamed_fields"):
        kind = ", ".join(sorted(description["types"]))
        return f"is an object of {kind}, whose field names the server does not know", False
    if not description["fields"]:
        if sampled:
            return "is an object without named fields", False
        return "is an object that no sampled row has a value of", True
    for inner, inner_description in description["fields"].items():
        _walk((*path, inner), inner_description, found, repeated, is_map)
    return None, False


def _a(name: str) -> str:
    return f"{'an' if name[0] in 'aeio' else 'a'} {name}"
