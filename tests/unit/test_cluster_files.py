"""The files for the Ignite side."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from ignite_strategy.errors import InvalidArgumentError, NotFoundError
from ignite_strategy.local.folders import cache_folder, cluster_file
from ignite_strategy.topology.caches import template_bean

_BEANS = "{http://www.springframework.org/schema/beans}"
_NAME = "{http://www.springframework.org/schema/p}name"
_PARTITIONS = "{http://www.springframework.org/schema/p}partitions"


def test_templates_have_the_count_that_their_name_says() -> None:
    found = {}
    for bean in ElementTree.parse(cluster_file("templates.xml")).iter(f"{_BEANS}bean"):
        if bean.get("parent") == "igs.template":
            affinity = bean.find(f".//{_BEANS}bean[@parent='igs.partitions']")
            assert affinity is not None
            found[bean.get(_NAME)] = affinity.get(_PARTITIONS)
    assert found == {f"igs-p{count}-*": count for count in found.values()}
    counts = sorted(int(count or 0) for count in found.values())
    assert counts[:16] == list(range(1, 17))
    assert {32, 64, 128, 256, 512, 1024} <= set(counts)


def test_the_bean_of_the_error_message_is_well_formed() -> None:
    bean = ElementTree.fromstring(template_bean(1000))
    values = {item.get("name"): item.get("value") for item in bean.iter("property")}
    assert values["name"] == "igs-p1000-*"
    assert values["partitions"] == "1000"
    assert values["partitionLossPolicy"] == "READ_WRITE_SAFE"


def test_nothing_listens_beyond_the_given_host_and_every_value_has_a_default() -> None:
    for name in ("node.xml", "igfs.xml"):
        used = re.findall(r"\$\{([^}:]+)(:?)", cluster_file(name).read_text())
        assert all(colon for _, colon in used), name
    text = cluster_file("node.xml").read_text()
    assert '<property name="connectorConfiguration"><null/></property>' in text


def test_a_missing_file_is_named() -> None:
    with pytest.raises(
        NotFoundError, match=r"absent\.xml is missing in .*cluster: install ignite-strategy again"
    ):
        cluster_file("absent.xml")


def test_the_cache_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("IGNITE_STRATEGY_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert str(cache_folder()) == "/home/u/.cache/ignite-strategy"
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert str(cache_folder()) == "/x/ignite-strategy"
    monkeypatch.setenv("IGNITE_STRATEGY_CACHE", "/y/z")
    assert str(cache_folder()) == "/y/z"
    monkeypatch.setenv("IGNITE_STRATEGY_CACHE", __file__)
    with pytest.raises(InvalidArgumentError, match="IGNITE_STRATEGY_CACHE"):
        cache_folder()
