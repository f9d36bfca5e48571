from types import TracebackType
from typing import Any, TypedDict

# wire

class DatasetEnvironment(TypedDict):
    cache_name: str | None
    host: str | None
    port: int | None
    local: bool | None
    part: list[int] | None
    page_size: int | None
    assignment: dict[str, list[int]] | None

class FilesystemEnvironment(TypedDict):
    host: str | None
    port: int | None
    name: str | None

class Connection:
    def __init__(
        self,
        host: str,
        port: int,
        connect_timeout: float = 5.0,
        request_timeout: float = 30.0,
        pooled: bool = False,
    ) -> None: ...
    def call(self, op: int, payload: bytes, doing: str) -> bytes: ...
    def close(self) -> None: ...
    def __enter__(self) -> Connection: ...
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    @property
    def node_id(self) -> str | None: ...
    @property
    def version(self) -> str: ...
    @property
    def endpoint(self) -> str: ...
    @property
    def peer(self) -> str: ...
    @property
    def has_node_endpoints(self) -> bool: ...

def clear_pool() -> None: ...
def dataset_environment() -> DatasetEnvironment: ...
def filesystem_environment() -> FilesystemEnvironment: ...
def parse_partitions(text: str, name: str) -> list[int]: ...
def format_partitions(partitions: list[int]) -> str: ...
def java_hash(text: str) -> int: ...
def java_lower_hash(text: str) -> int: ...
def openssl_version() -> str: ...
def random_bytes(size: int) -> bytes: ...

# scan

def type_table() -> dict[int, tuple[str, str, str, str]]: ...
def scan_config(
    cache: str,
    endpoints: list[tuple[str, int]],
    columns: list[tuple[list[str], int, int, int]],
    *,
    local: bool = False,
    env: bool = True,
    partitions: list[int] | None = None,
    intersect: bool = False,
    page_size: int = 0,
    bytes_per_row: float = 0.0,
    batch_size: int = 0,
    drop_remainder: bool = False,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
) -> bytes: ...
def discover(
    host: str,
    port: int,
    cache: str,
    *,
    local: bool = False,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
) -> dict[str, Any]: ...
def reader_report() -> str: ...

class Scan:
    def __init__(self, config: bytes) -> None: ...
    def next(self) -> list[Any] | None: ...
    def close(self) -> None: ...

# igfs
