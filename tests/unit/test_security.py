"""TLS settings and credentials: what they mean together, what replaces them, and where they never appear.

Whether credentials switch TLS on by themselves, as in apache/ignite-python-thin-client #55, is asked here too.
"""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from ignite_strategy import _core, errors, settings
from ignite_strategy.dataset.source import Source
from ignite_strategy.settings import Credentials, Endpoint, Security, Timeouts, Tls, security_of

PREFIXES = list(settings.DATASET_PREFIXES)
SECRET = "s3cret-Pa$$w0rd"
USER = "u5er-name"


def resolved(security: Security | None, prefixes: list[str] = PREFIXES) -> dict:
    return _core.resolve_security((security or settings.PLAIN).native(), prefixes)


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"username": "u"}, "password="),
        ({"password": "p"}, "username="),
        ({"keyfile": "k"}, "certfile="),
        ({"cert_password": "p"}, "certfile="),
        ({"tls": False, "cafile": "c"}, "tls=False"),
        ({"tls": False, "certfile": "c"}, "tls=False"),
        ({"verify": False}, "tls=True"),
        ({"check_hostname": False}, "tls=True"),
        ({"cafile": ""}, "cafile"),
    ],
)
def test_contradictions_are_refused(arguments, text):
    with pytest.raises(errors.InvalidArgumentError, match=text):
        security_of(**arguments)


@pytest.mark.parametrize(
    ("arguments", "tls"),
    [
        ({}, None),
        ({"tls": True}, True),
        ({"cafile": "c"}, True),
        ({"certfile": "c"}, True),
        ({"username": "u", "password": "p"}, False),
        ({"username": "u", "password": "p", "tls": True}, True),
    ],
)
def test_tls_is_on_when_asked_for_only(arguments, tls):
    """Credentials never switch TLS on: apache/ignite-python-thin-client #55."""
    found = resolved(security_of(**arguments))
    assert (None if found is None else found["tls"]) == tls


def test_secrets_are_in_no_repr_and_no_settings(caplog):
    caplog.set_level(logging.DEBUG)
    security = security_of(
        cafile="ca.pem", certfile="c.pem", cert_password=SECRET, username=USER, password=SECRET
    )
    source = Source("C", (Endpoint("a", 1),), timeouts=Timeouts(), security=security)
    shown = repr(security) + repr(source) + str(security) + caplog.text
    config = source.config([], 0, 0.0)
    for secret in (SECRET, USER):
        assert secret not in shown
        assert secret.encode() not in security.native() + config
    assert "ca.pem" in shown
    assert resolved(security)["password"] == SECRET


def test_equal_settings_share_one_entry():
    first = security_of(username=USER, password=SECRET)
    assert first.native() == security_of(username=USER, password=SECRET).native()
    assert first.native() != security_of(username=USER, password="other").native()


@pytest.mark.parametrize(
    ("name", "value", "key", "expected"),
    [
        ("TLS", "1", "tls", True),
        ("CAFILE", "/x", "cafile", "/x"),
        ("CERTFILE", "/x", "certfile", "/x"),
        ("VERIFY", "false", "verify", False),
        ("CHECK_HOSTNAME", "0", "check_hostname", False),
    ],
)
def test_a_variable_replaces_the_setting_of_its_name(monkeypatch, name, value, key, expected):
    monkeypatch.setenv(f"IGNITE_{name}", "1" if name in ("TLS", "VERIFY", "CHECK_HOSTNAME") else "/other")
    monkeypatch.setenv(f"IGNITE_DATASET_{name}", value)
    assert resolved(security_of(tls=True, cafile="/mine"))[key] == expected


def test_variables_give_credentials(monkeypatch):
    monkeypatch.setenv("IGNITE_DATASET_USERNAME", "a")
    monkeypatch.setenv("IGNITE_DATASET_PASSWORD", "b")
    found = resolved(security_of(username=USER, password=SECRET))
    assert (found["username"], found["password"], found["tls"]) == ("a", "b", False)


def test_a_certificate_of_the_environment_brings_its_own_key(monkeypatch):
    monkeypatch.setenv("IGNITE_DATASET_CERTFILE", "/theirs")
    found = resolved(security_of(certfile="/mine", keyfile="/mine.key", cert_password=SECRET))
    assert (found["certfile"], found["keyfile"], found["cert_password"]) == ("/theirs", "", None)


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        ({"TLS": "perhaps"}, "IGNITE_DATASET_TLS"),
        ({"CAFILE": ""}, "IGNITE_DATASET_CAFILE"),
        ({"PASSWORD": ""}, "IGNITE_DATASET_PASSWORD"),
        ({"USERNAME": USER}, "password"),
        ({"PASSWORD": SECRET}, "user"),
        ({"KEYFILE": "/k"}, "certfile"),
        ({"TLS": "0", "CAFILE": "/c"}, "TLS=0"),
    ],
)
def test_bad_variables_name_themselves_and_no_secret(monkeypatch, variables, text):
    for name, value in variables.items():
        monkeypatch.setenv(f"IGNITE_DATASET_{name}", value)
    with pytest.raises(errors.InvalidArgumentError, match=text) as caught:
        resolved(None)
    assert SECRET not in str(caught.value)
    assert USER not in str(caught.value)


def test_the_environment_can_switch_tls_off(monkeypatch):
    monkeypatch.setenv("IGNITE_DATASET_TLS", "0")
    assert resolved(security_of(cafile="/c")) is None


def elsewhere(settings_bytes: bytes, **variables: str) -> str:
    """What another process makes of these settings."""
    code = (
        "import sys; from ignite_strategy import _core, errors\n"
        "try: found = _core.resolve_security(bytes.fromhex(sys.argv[1]), ['IGNITE_DATASET_', 'IGNITE_'])\n"
        "except errors.AuthenticationError as error: print('refused:', error)\n"
        "else: print(found and (found['tls'], found['username'], found['cert_password']))"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, settings_bytes.hex()],
        env=variables,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout


def test_another_process_names_the_variables_to_set():
    made = security_of(username=USER, password=SECRET).native()
    said = elsewhere(made)
    assert "IGNITE_DATASET_USERNAME and IGNITE_DATASET_PASSWORD" in said
    assert said.startswith("refused:")
    set_there = {"IGNITE_DATASET_USERNAME": "a", "IGNITE_DATASET_PASSWORD": "b"}
    assert elsewhere(made, **set_there) == "(False, 'a', None)\n"
    assert elsewhere(made, IGNITE_USERNAME="a", IGNITE_PASSWORD="b") == "(False, 'a', None)\n"
    key = security_of(certfile="/c", cert_password=SECRET).native()
    assert "IGNITE_DATASET_CERT_PASSWORD" in elsewhere(key)
    assert elsewhere(key, IGNITE_CERT_PASSWORD="p") == "(True, None, 'p')\n"
    assert elsewhere(security_of(tls=True).native()) == "(True, None, None)\n"  # needs no secret


def test_the_resolvers_credentials_go_to_its_own_nodes_only():
    mine = Security(Tls(cafile="/c"), Credentials(USER, SECRET))
    here, there = Endpoint("a", 1), Endpoint("b", 1)
    with settings.use_default_endpoints([here], mine):
        assert settings.security_for([here], None) is mine
        assert settings.security_for([there], None) == settings.PLAIN
        assert settings.security_for([here], settings.PLAIN) == settings.PLAIN
        assert settings.default_security() is mine
    assert settings.default_security() == settings.PLAIN


def test_settings_of_another_version_are_refused():
    with pytest.raises(errors.InvalidArgumentError, match="security settings"):
        _core.resolve_security(b"garbage", [])
    with pytest.raises(errors.InvalidArgumentError, match="security settings"):
        _core.resolve_security(security_of(tls=True).native()[:-1], [])
