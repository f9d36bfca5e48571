"""TensorFlow exports BoringSSL under OpenSSL's names: no such name may be resolved outside our objects."""

import importlib.util
import re
from pathlib import Path

import pytest

elffile = pytest.importorskip("elftools.elf.elffile")

FOREIGN = re.compile(r"^(SSL|EVP|X509|CRYPTO|RAND|BIO|ERR|OPENSSL|PEM|RSA|BN|ASN1|EC|SHA\d+|HMAC)_")


def native(name: str) -> Path:
    spec = importlib.util.find_spec("ignite_strategy._core")
    assert spec is not None
    assert spec.origin is not None
    core = Path(spec.origin)
    return core if name == "_core" else core.with_name(f"{name}.so")


def symbols(path: Path) -> tuple[set[str], set[str], list[str]]:
    """The imported symbols, the exported symbols and the needed libraries."""
    with path.open("rb") as file:
        elf = elffile.ELFFile(file)
        table = elf.get_section_by_name(".dynsym")
        imported = {s.name for s in table.iter_symbols() if s.name and s["st_shndx"] == "SHN_UNDEF"}
        exported = {s.name for s in table.iter_symbols() if s.name and s["st_shndx"] != "SHN_UNDEF"}
        tags = elf.get_section_by_name(".dynamic").iter_tags()
        needed = [tag.needed for tag in tags if tag.entry.d_tag == "DT_NEEDED"]
    return imported, exported, needed


@pytest.mark.parametrize("name", ["_core", "_tensorflow"])
def test_no_symbol_of_openssl_is_imported_or_exported(name):
    imported, exported, needed = symbols(native(name))
    assert not [symbol for symbol in imported | exported if FOREIGN.match(symbol)]
    assert not [library for library in needed if re.match(r"lib(ssl|crypto|tensorflow|python)", library)]


def test_the_python_module_exports_its_entry_point_only():
    assert symbols(native("_core"))[1] == {"PyInit__core"}


def test_the_tensorflow_library_exports_what_is_meant():
    exported = symbols(native("_tensorflow"))[1]
    assert {symbol for symbol in exported if not symbol.startswith("ignite_strategy_")} <= {"TF_InitPlugin"}
    assert "ignite_strategy_version" in exported
