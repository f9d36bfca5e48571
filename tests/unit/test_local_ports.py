"""Claims on ports."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ignite_strategy.errors import AlreadyExistsError
from ignite_strategy.local.ports import PortClaims, is_free


def test_a_claimed_port_is_refused_to_everybody_else(tmp_path: Path) -> None:
    mine, other = PortClaims(tmp_path), PortClaims(tmp_path)
    port = mine.claim_any()
    with pytest.raises(AlreadyExistsError, match=f"port {port} of this host is in use"):
        other.claim(port)
    mine.release()
    assert other.claim(port) == port
    other.release()


def test_claims_end_with_the_process(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from ignite_strategy.local.ports import PortClaims\n"
    program += (
        "claims = PortClaims(Path(sys.argv[1])); print(claims.claim_any(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        claims = PortClaims(tmp_path)
        with pytest.raises(AlreadyExistsError):
            claims.claim(port)
        process.kill()
        process.wait(10)
        assert claims.claim(port) == port
        claims.release()


def test_a_port_that_somebody_listens_on_is_not_free(tmp_path: Path) -> None:
    claims = PortClaims(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(AlreadyExistsError):
            claims.claim(port)
    assert is_free(port)


def test_ports_are_outside_the_range_of_outgoing_connections(tmp_path: Path) -> None:
    low = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    claims = PortClaims(tmp_path)
    ports = [claims.claim_any() for _ in range(50)]
    claims.release()
    assert len(set(ports)) == 50
    assert max(ports) < max(low, 32_000)
