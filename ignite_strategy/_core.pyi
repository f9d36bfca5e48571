from collections.abc import Callable, Sequence
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
    backend: str | None

class Connection:
    def __init__(
        self,
        host: str,
        port: int,
        connect_timeout: float = 5.0,
        request_timeout: float = 30.0,
        pooled: bool = False,
        security: bytes = b"",
        prefixes: list[str] = ...,
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

class ResolvedSecurity(TypedDict):
    tls: bool
    verify: bool
    check_hostname: bool
    cafile: str
    certfile: str
    keyfile: str
    cert_password: str | None
    username: str | None
    password: str | None

def security_settings(
    *,
    tls: bool,
    verify: bool,
    check_hostname: bool,
    cafile: str | None,
    certfile: str | None,
    keyfile: str | None,
    username: str | None,
    password: str | None,
    cert_password: str | None,
    key: str,
) -> bytes: ...
def resolve_security(settings: bytes, prefixes: list[str]) -> ResolvedSecurity | None: ...
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

def type_table() -> dict[int, tuple[str, str, str, str, int]]: ...
def dtype_of(code: int, decimal_float64: bool, enum_name: bool) -> str: ...
def scan_config(
    cache: str,
    endpoints: list[tuple[str, int]],
    columns: Sequence[tuple[Any, ...]],
    *,
    local: bool = False,
    env: bool = True,
    partitions: list[int] | None = None,
    intersect: bool = False,
    page_size: int = 0,
    bytes_per_row: float = 0.0,
    batch_size: int = 0,
    drop_remainder: bool = False,
    grouped: bool = False,
    parallel_reads: int = 1,
    deterministic: bool = True,
    owners: bytes = b"",
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    value_type: tuple[int, int, bool] | None = None,
    security: bytes = b"",
    sql: tuple[str, str, int, bytes, list[str], bool] | None = None,
) -> bytes: ...
def owners(
    host: str,
    port: int,
    cache: str,
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: bytes = b"",
    env: bool = True,
) -> bytes: ...
def forget_owners(cache: str) -> None: ...
def cache_size(
    host: str,
    port: int,
    cache: str,
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: bytes = b"",
    env: bool = True,
) -> int: ...
def sql_columns(
    host: str,
    port: int,
    schema: str,
    text: str,
    argument_count: int,
    arguments: bytes,
    *,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: bytes = b"",
    env: bool = True,
) -> tuple[list[tuple[str, set[int], int]], int, int]: ...
def discover(
    host: str,
    port: int,
    cache: str,
    *,
    local: bool = False,
    type: str = "",
    everywhere: bool = False,
    connect_timeout: float = 5.0,
    request_timeout: float = 30.0,
    security: bytes = b"",
    env: bool = True,
) -> dict[str, Any]: ...
def decode_rows(
    rows: bytes,
    count: int,
    columns: Sequence[tuple[Any, ...]],
    types: dict[int, bytes],
    value_type: tuple[int, int, bool] | None = None,
) -> list[Any]: ...
def describe_rows(rows: bytes, count: int, types: dict[int, bytes]) -> tuple[Any, Any, dict[int, Any]]: ...
def reader_report() -> str: ...

class Scan:
    def __init__(self, config: bytes) -> None: ...
    def next(self) -> list[Any] | None: ...
    def count(self) -> int: ...
    def close(self) -> None: ...

# bulk

def encode_rows(key: Any, value: Any, rows: int) -> bytes: ...
def type_metadata_request(
    name: str, fields: list[tuple[str, int]], enum_values: list[tuple[str, int]]
) -> bytes: ...
def partition_of(key: bytes, partitions: int) -> int | None: ...

class BulkWriter:
    def __init__(
        self,
        cache: str,
        endpoints: list[tuple[str, int]],
        *,
        connections: int = 2,
        in_flight: int = 2,
        batch_rows: int = 2048,
        batch_bytes: int = 1 << 20,
        partition_aware: bool = True,
        connect_timeout: float = 5.0,
        request_timeout: float = 30.0,
        security: bytes = b"",
    ) -> None: ...
    def write(self, key: Any, value: Any, rows: int) -> None: ...
    def finish(self) -> None: ...
    def stop(self, limit: float) -> None: ...
    def close(self) -> None: ...
    def report(self) -> dict[str, Any]: ...
    @property
    def acknowledged(self) -> int: ...

# igfs

class FileSystemStatus(TypedDict):
    is_directory: bool
    size: int
    mtime: float

class FileSystemUsage(TypedDict):
    files: int
    directories: int
    bytes: int
    trash_blocks: int
    writers: int
    stored_blocks: int

class FileSystemReport(TypedDict):
    usage: FileSystemUsage
    findings: list[tuple[str, str, str]]
    found: int
    collected_blocks: int

class FileReader:
    def read_at(self, offset: int, size: int) -> bytes: ...
    def read_into(self, offset: int, memory: bytearray | memoryview) -> int: ...
    @property
    def size(self) -> int: ...

class FileWriter:
    def write(self, memory: bytes | bytearray | memoryview) -> int: ...
    def flush(self) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...
    def tell(self) -> int: ...

class FileSystem:
    def __init__(
        self,
        host: str | None = None,
        port: int | None = None,
        name: str | None = None,
        security: bytes | None = None,
        backend: str | None = None,
    ) -> None: ...
    def stat(self, path: str) -> FileSystemStatus: ...
    def list(self, path: str) -> list[tuple[str, FileSystemStatus]]: ...
    def mkdir(self, path: str) -> None: ...
    def makedirs(self, path: str) -> None: ...
    def remove(self, path: str) -> None: ...
    def rmdir(self, path: str) -> None: ...
    def rmtree(self, path: str) -> None: ...
    def rename(self, source: str, target: str) -> None: ...
    def copy(self, source: str, target: str) -> None: ...
    def open_read(self, path: str) -> FileReader: ...
    def open_write(self, path: str, mode: str = "w") -> FileWriter: ...
    def usage(self) -> FileSystemUsage: ...
    def check(
        self,
        repair: bool = False,
        offline: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> FileSystemReport: ...
    def tend(self) -> None: ...
    @property
    def backend(self) -> str: ...
    @property
    def target(self) -> str: ...

def set_default_cluster(addresses: str, security: bytes) -> None: ...
