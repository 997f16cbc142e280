"""Limits on connections: their number, the time until the headers arrive, and the time until a response is read."""

import asyncio
import logging
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEADER_SECONDS = 10.0
"""Seconds from the connection to complete headers; for a later request, from its first byte."""
STALL_SECONDS = 60.0
"""Seconds within which a client must read some of a response."""
MAX_CONNECTIONS = 1000
MAX_BATCH = 128
BACKLOG = 2048
"""Connections that the kernel holds until the server accepts them; they use no file descriptors of the process."""
LOG = logging.getLogger("uvicorn.error")


class Connection(H11Protocol):
    """uvicorn's HTTP connection, with limits.

    uvicorn starts its only timer after a response. This class also closes a connection whose headers do not arrive in
    time, or whose client stops reading. If there are too many connections, it closes one for each new connection.
    """

    _since: float
    """Time at which the connection began or its last response ended, by the clock of the event loop."""
    _header_timer: asyncio.TimerHandle | None = None
    _stall_timer: asyncio.TimerHandle | None = None
    _writing_paused = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._since = self.loop.time()
        self._time_headers()
        if len(self.connections) > max_connections():
            LOG.warning("too many connections: closing one without a running request for each new one")
            connections = [one for one in self.connections if isinstance(one, Connection) and one._can_be_closed]
            min(connections, key=lambda one: one._since)._abort()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._cancel_header_timer()
        self._cancel_stall_timer()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._time_headers()

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        super().on_response_complete()
        self._time_reader()

    def shutdown(self) -> None:
        super().shutdown()
        if not self._is_waiting and self.cycle.more_body:
            self._abort()  # else uvicorn would cancel the request and log it as a failure

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing_paused = True
        self._time_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing_paused = False
        self._time_reader()

    @property
    def _is_waiting(self) -> bool:
        """True if no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    @property
    def _can_be_closed(self) -> bool:
        """True if no request is running.

        A request runs from its last byte until it is answered or its client stops reading.
        """
        return self._is_waiting or self.cycle.more_body or self._writing_paused

    def _time_headers(self) -> None:
        """Start the time limit of a request; further bytes of the same request do not extend it."""
        if not self._is_waiting:
            self._cancel_header_timer()
        elif self._header_timer is None and not self.transport.is_closing():
            self._header_timer = self.loop.call_later(HEADER_SECONDS, self.transport.close)

    def _cancel_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None

    def _time_reader(self) -> None:
        """Abort the connection unless the client keeps reading; `close` would wait for the client forever."""
        self._cancel_stall_timer()
        if unread := self.transport.get_write_buffer_size():
            self._stall_timer = self.loop.call_later(STALL_SECONDS, self._check_reader, unread)

    def _check_reader(self, unread: int) -> None:
        if self._can_be_closed and self.transport.get_write_buffer_size() >= unread:
            self._abort()
        else:
            self._time_reader()

    def _cancel_stall_timer(self) -> None:
        if self._stall_timer is not None:
            self._stall_timer.cancel()
            self._stall_timer = None

    def _abort(self) -> None:
        self.connections.discard(self)  # so that it is not chosen again before the event loop has closed it
        self.transport.abort()


def max_connections() -> int:
    """Return how many connections may be open: half of the limit on files, at most `MAX_CONNECTIONS`."""
    return max(1, min(MAX_CONNECTIONS, _max_files() // 2))


def accept_batch() -> int:
    """Return how many connections asyncio may accept before it calls `connection_made` for the first of them."""
    return max(1, min(MAX_BATCH, _max_files() // 8))


def _max_files() -> int:
    try:
        import resource
    except ImportError:  # Windows has no limit of this kind
        return 2 * MAX_CONNECTIONS
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 * MAX_CONNECTIONS if soft == resource.RLIM_INFINITY else soft


def log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop, such as a failed `accept`, with the server's own messages."""
    LOG.error(context["message"], exc_info=context.get("exception"))


class RepeatFilter(logging.Filter):
    """A filter that lets a message pass once, and counts its repetitions until `report`."""

    def __init__(self, logger: logging.Logger) -> None:
        """Create a filter without messages. `logger`: logger that reports the repetitions."""
        super().__init__()
        self._logger = logger
        self._repetitions: dict[tuple[str, str], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        key = str(record.msg), _origin(record.exc_info[1] if record.exc_info else None)
        known = key in self._repetitions
        self._repetitions[key] = self._repetitions.get(key, -1) + 1
        return not known

    def report(self) -> None:
        """Log how often each message was repeated; the next one passes again."""
        counts, self._repetitions = self._repetitions, {}
        for (message, origin), count in counts.items():
            if count:
                self._logger.warning(f"{count:,} more times: {message} {origin}".strip())
        self._repetitions.clear()


def _origin(error: BaseException | None) -> str:
    """Return the type of an error and the line that raised it."""
    if error is None:
        return ""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    where = "" if trace is None else f" in {trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}"
    return f"({type(error).__name__}{where})"
