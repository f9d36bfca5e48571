"""A gRPC server that answers every call with ABORTED.

TensorFlow's client waits for ever for a master that is gone: its channel hopes for the server's return, and
no deadline of Python's reaches it. Only an answer frees it, and this is the answer that makes
``MonitoredSession`` ask for a new session.
"""

from __future__ import annotations

import threading
from concurrent import futures
from typing import Any

from ignite_strategy.errors import ClusterError
from ignite_strategy.settings import Endpoint

__all__ = ["Tombstone"]


class Tombstone:
    """Listens on a free port of this host only, until closed."""

    def __init__(self) -> None:
        import grpc

        def abort(request: bytes, context: Any) -> None:
            context.abort(grpc.StatusCode.ABORTED, "this run has ended")

        class Handler(grpc.GenericRpcHandler):  # type: ignore[misc]
            def service(self, details: Any) -> Any:
                return grpc.unary_unary_rpc_method_handler(abort)

        # Without SO_REUSEPORT, or the kernel could share the port with somebody else's server.
        self._server = grpc.server(_Threads(), handlers=[Handler()], options=[("grpc.so_reuseport", 0)])
        port = self._server.add_insecure_port("127.0.0.1:0")
        if not port:
            raise ClusterError("127.0.0.1: no free port to listen on while ending a training run")
        self._server.start()
        self.endpoint = Endpoint("127.0.0.1", port)

    def close(self) -> None:
        """Stops the server."""
        self._server.stop(None).wait(2.0)


class _Threads(futures.Executor):
    """A daemon thread for each call: a ThreadPoolExecutor takes none once the interpreter is ending."""

    def submit(self, function: Any, /, *args: Any, **kwargs: Any) -> Any:
        result: futures.Future[Any] = futures.Future()

        def work() -> None:
            try:
                result.set_result(function(*args, **kwargs))
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=work, name="ignite_strategy-tombstone", daemon=True).start()
        return result
