"""psrt for Python: one file over libpsrt by ctypes, no other dependency.

    import psrt
    with psrt.Client(servers=["127.0.0.1:7700"], token_file="token") as client:
        table = client.table("w")
        values = table.pull(keys)            # keys: numpy uint64, torch int64, list
        ...
        table.push(keys, grads)              # returns when the servers have applied it

Nothing is copied on the way into the library: the addresses of NumPy arrays,
PyTorch tensors and anything else with the buffer protocol are handed over as they
are. They must be contiguous: 64-bit integers for keys, 32-bit floats for values and
gradients. Values and gradients may be in a GPU's memory: tensors of PyTorch, and what
has __cuda_array_interface__ (CuPy, Numba). The library then works on PyTorch's current
stream, or the array's: a pull is over when the copy of the rows is on it, and a push
takes the gradients behind what is on it. A pull that is not waited for refuses an
array whose stream is 2, which is each thread's own. Keys stay the host's. A method that is given no `out` returns a new NumPy
array, or where NumPy is missing an array.array of n * dim floats.

Every object may be used from several threads; calls let other Python threads run.
Ctrl-C ends a call within .2 s, with what the signal's handler raises (KeyboardInterrupt), in
the main thread. A push that it ends may have been applied, as after a Timeout. A pull that
it ends does not touch `out` any more. What cannot be taken back (close, clock, save, load,
shrink, end_day, the opening of a table, calls with a GPU's memory) goes on in the
background, and its arrays are kept until it is over. A barrier may be called again.

Clients, tables and requests belong to their process: they are not copied or pickled.

Errors are exceptions: psrt.Error with the status of psrt.h and the library's
message; psrt.Timeout (a TimeoutError) and psrt.ConnectionLost (a ConnectionError)
are the ones that a trainer may want to catch and try again.

The library is found as PSRT_LIBRARY says, beside this file, where `make install`
puts the two, or where the system's linker looks. docs/c-abi.md tells more.
"""

from __future__ import annotations

import array
import asyncio
import ctypes
import ctypes.util
import json
import os
import select
import sys
import threading
import time
from ctypes import POINTER, byref, c_char_p, c_int, c_int32, c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any, Generator, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

__all__ = [
    "Client", "Table", "TableInfo", "Request", "Error", "Timeout", "ConnectionLost", "PushPart", "version",
    "PUSH_UNKNOWN", "PUSH_APPLIED", "PUSH_MISSING", "DENSE_TABLE",
    "READ_ONLY", "ANY_CLOCK", "WEIGHTS_ONLY",
]

READ_ONLY = 1
"""A pull that makes no rows: unknown keys give zeros."""
ANY_CLOCK = 2
"""A pull that does not wait for other trainers, whatever the clocks say."""
WEIGHTS_ONLY = 4
"""A save that leaves the optimizer's state out."""

PUSH_UNKNOWN = 0
"""Of a part of a push that failed: no server has said. The client sends it until one does."""
PUSH_APPLIED = 1
"""The server has it: it counts, once. With bsp for its step."""
PUSH_MISSING = 2
"""No server has it, and it is not sent again."""
DENSE_TABLE = 0xFFFFFFFF
"""PushPart.table of the dense vector."""

_DEVICE = 8
_CHECK_FINITE = 16

_ABI_MAJOR, _ABI_MINOR = 1, 3

_STATUS = {
    -1: "EINVAL", -2: "EHANDLE", -3: "ECONFIG", -4: "ETOKEN", -5: "ECONNECT", -6: "ETIMEDOUT",
    -7: "ENOTABLE", -8: "EMISMATCH", -9: "ESTALE", -10: "ENOMEM", -11: "ESERVER", -12: "EFORKED",
    -13: "EBUSY", -14: "ETOOSMALL", -15: "EFAULT", -16: "EIO", -17: "ECLOSED", -18: "ECLOCK", -19: "EINTERNAL",
    -20: "EDEVICE", -21: "ENOTFINITE",
}
_ETIMEDOUT, _ECONNECT, _EBUSY, _ETOOSMALL = -6, -5, -13, -14


class Error(Exception):
    """What the library says about a failed call. `status` is psrt.h's code, `name` its name.

    `push` is the number of the push that the failure leaves in doubt, for Client.push_status and
    Table.push_missing; 0 where none is.
    """

    push = 0

    def __init__(self, status: int, message: str):
        super().__init__(message)
        self.message = message
        self.status = status
        self.name = _STATUS.get(status, str(status))

    def __reduce__(self) -> Any:
        return type(self), (self.status, self.message)

    def __str__(self) -> str:
        return f"{self.message} [{self.name}]"


class Timeout(Error, TimeoutError):
    """A call took longer than its timeout. A push may be there in part: see Table.push_missing."""


class ConnectionLost(Error, ConnectionError):
    """A server cannot be reached. The client goes on trying: calls work again when it is back."""


class _Options(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("flags", c_uint32), ("timeout_us", c_uint64), ("buffer_bytes", c_uint64),
        ("callback", c_void_p), ("arg", c_void_p), ("eventfd", c_int32), ("use_eventfd", c_uint32),
        ("stream", c_void_p),
    ]


class _Info(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("dim", c_uint32), ("id", c_uint32), ("row_bytes", c_uint32),
        ("optimizer", ctypes.c_char * 32),
    ]


class _Part(ctypes.Structure):
    _fields_ = [
        ("size", c_uint32), ("state", c_uint32), ("part", c_uint32), ("server", c_uint32), ("table", c_uint32),
        ("ends_step", c_uint32), ("rows", c_uint64),
    ]


def _find() -> str:
    name = os.environ.get("PSRT_LIBRARY")
    if name:
        return name
    here = os.path.dirname(os.path.abspath(__file__))
    for near in ("libpsrt.so", "../../lib/libpsrt.so.1"):  # a copy, or make install's
        path = os.path.join(here, near)
        if os.path.exists(path):
            return path
    return ctypes.util.find_library("psrt") or "libpsrt.so.1"


_V, _N, _P = c_void_p, c_size_t, POINTER
_SIGNATURES = {
    "psrt_client_open": [c_char_p, _P(_V)],
    "psrt_client_close": [_V],
    "psrt_noop": [_V],
    "psrt_stats_json": [_V, _V, _N, _P(_N)],
    "psrt_table_open": [_V, c_char_p, _P(_V)],
    "psrt_table_get_info": [_V, _P(_Info)],
    "psrt_pull_sparse_opt": [_V, _V, _N, _V, _V, _V],
    "psrt_pull_sparse_async": [_V, _V, _N, _V, _V, _V, _P(_V)],
    "psrt_push_sparse_opt": [_V, _V, _N, _V, _V],
    "psrt_push_sparse_async": [_V, _V, _N, _V, _V, _P(_V)],
    "psrt_push_sparse_counts": [_V, _V, _N, _V, _V, _V, _V, _V],
    "psrt_table_shrink": [_V],
    "psrt_table_end_day": [_V],
    "psrt_push_sparse_ticket_opt": [_V, c_uint64, _N, _V, _V],
    "psrt_push_sparse_ticket_async": [_V, c_uint64, _N, _V, _V, _P(_V)],
    "psrt_plan": [_V, _V, _N, _V, _V, _P(_N)],
    "psrt_prefetch": [_V, _V, _N],
    "psrt_dense_size": [_V, _P(_N)],
    "psrt_dense_range": [_V, c_char_p, _P(_N), _P(_N)],
    "psrt_pull_dense_opt": [_V, _V, _N, _V],
    "psrt_pull_dense_async": [_V, _V, _N, _V, _P(_V)],
    "psrt_push_dense_opt": [_V, _V, _N, _V],
    "psrt_push_dense_async": [_V, _V, _N, _V, _P(_V)],
    "psrt_wait": [_V, c_uint64],
    "psrt_cancel": [_V],
    "psrt_thread_slice": [c_uint64, _P(_V)],
    "psrt_test": [_V, _P(c_int)],
    "psrt_mem_alloc": [_V, _N, _P(_V)],
    "psrt_mem_free": [_V, _V],
    "psrt_mem_register": [_V, _V, _N],
    "psrt_mem_unregister": [_V, _V],
    "psrt_mem_is_direct": [_V, _V, _N, _P(c_int)],
    "psrt_clock": [_V],
    "psrt_clock_now": [_V, _P(c_uint64)],
    "psrt_barrier": [_V],
    "psrt_finish_steps": [_V],
    "psrt_push_status": [_V, c_uint64, _V, _N, _P(_N)],
    "psrt_push_states": [_V, c_uint64, _V, _N, _V],
    "psrt_push_missing": [_V, c_uint64, _V, _N, _V, _V],
    "psrt_save": [_V, c_char_p, _V],
    "psrt_load": [_V, c_char_p, _V],
}


def _load() -> ctypes.CDLL:
    name = _find()
    try:
        lib = ctypes.CDLL(name)
    except OSError as e:
        raise ImportError(f"psrt: {e}; set PSRT_LIBRARY to libpsrt.so, or import psrt.py from where make install put it (PYTHONPATH=PREFIX/share/psrt)") from None
    lib.psrt_abi_version.restype = c_uint32
    lib.psrt_abi_version.argtypes = []
    lib.psrt_version.restype = c_char_p
    lib.psrt_version.argtypes = []
    lib.psrt_last_error.restype = c_char_p
    lib.psrt_last_error.argtypes = []
    lib.psrt_last_push.restype = c_uint64
    lib.psrt_last_push.argtypes = []
    lib.psrt_last_refused.restype = c_uint64
    lib.psrt_last_refused.argtypes = []
    major, minor = divmod(lib.psrt_abi_version(), 1 << 16)
    if major != _ABI_MAJOR or minor < _ABI_MINOR:
        raise ImportError(f"psrt: {name} has version {major}.{minor} of the C interface, this file is for {_ABI_MAJOR}.{_ABI_MINOR}: use the two of one release")
    for function, arguments in _SIGNATURES.items():
        f = getattr(lib, function)
        f.restype, f.argtypes = c_int, arguments
    return lib


_lib = _load()


def version() -> str:
    """The library's release."""
    return _lib.psrt_version().decode()


def _fail(status: int, message: Optional[str] = None, push: int = 0) -> None:
    """Raise what a call failed with; without a message, what the thread's last call failed with."""
    if message is None:
        message, push = _why()
    e = {_ETIMEDOUT: Timeout, _ECONNECT: ConnectionLost}.get(status, Error)(status, message)
    e.push = push
    raise e


def _why() -> Tuple[str, int]:
    """The message of the thread's last failure, and the number of the push that it leaves in doubt."""
    return _lib.psrt_last_error().decode(errors="replace"), _lib.psrt_last_push()


# ----------------------------------------------------------------------- calls

# Python runs signal handlers between calls of C. So calls of the main thread that wait
# return every _SLICE microseconds, with what goes on in _slot (psrt_thread_slice).
_SLICE = 50_000
_slot = c_void_p()
_sliced = False

# Requests that nobody waits for, by handle, with what the library may touch until they
# are over. The interpreter must not free it when it ends, while the library still runs.
_left: dict[int, Any] = {}
ctypes.pythonapi.Py_IncRef(ctypes.py_object(_left))


def _slice_main() -> None:
    global _sliced
    if not _sliced and threading.current_thread() is threading.main_thread():
        _sliced = _lib.psrt_thread_slice(_SLICE, byref(_slot)) == 0


_slice_main()


def _call(keep: Any, function: Any, *arguments: Any) -> None:
    """Make a call that may wait. keep and arguments live until the library is done with them."""
    keep = keep, arguments
    message, push = None, 0
    try:
        status = function(*arguments)
        if status == _EBUSY and _slot.value and threading.current_thread() is threading.main_thread():
            status, message, push = _go_on(keep)
    except BaseException:
        if _slot.value and threading.current_thread() is threading.main_thread():
            request, _slot.value = _slot.value, None
            _cancel(request, keep)
        raise
    if status:
        _fail(status, message, push)


def _push_call(keep: Any, function: Any, *arguments: Any) -> int:
    """Make a call that pushes, and return the number of rows that the servers refused."""
    _call(keep, function, *arguments)
    return _lib.psrt_last_refused()


def _go_on(keep: Any) -> Tuple[int, Optional[str], int]:
    """Wait for the request in _slot."""
    request = _slot.value or 0
    try:
        _slot.value = None
        while True:
            status, message, push = _wait(request, _SLICE)
            if status is not None:
                return status, message, push
    except BaseException:
        _cancel(request, keep)
        raise


def _wait(request: int, micros: int) -> Tuple[Optional[int], Optional[str], int]:
    """The status of a request, its message and its push in doubt; None: it is not over yet."""
    status = _lib.psrt_wait(request, micros)
    if status == 0:
        return 0, None, 0
    message, push = _why()
    if status == _EBUSY:  # the request's own status, or the time is over
        over = c_int()
        now = _lib.psrt_test(request, byref(over))
        if over.value:
            return (now, None, 0) if now == 0 else (now, *_why())
        if now == 0:
            return None, None, 0
    return status, message, push


def _cancel(request: int, keep: Any) -> None:
    """Give a request up, or keep what it needs until it is over."""
    _left[request] = keep
    if _lib.psrt_cancel(request) != _EBUSY:
        _left.pop(request, None)
    _sweep()


def _sweep() -> None:
    """Let go of the requests that are over."""
    for request in list(_left):
        over = c_int()
        status = _lib.psrt_test(request, byref(over))
        if over.value or status:
            left = _left.pop(request, None)
            if isinstance(left, Request):
                left._settle(status)


class _Own:
    """What belongs to its process and stands for something of the library's."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(f"psrt: a {type(self).__name__} cannot be copied or pickled: open a Client in each process, and share it among threads")


# --------------------------------------------------------------------- buffers

try:
    import numpy as _numpy
except ImportError:  # everything but the shapes of new arrays works without
    _numpy = None  # type: ignore[assignment]

# The usual case goes by a quicker way: asking an array for its interface takes
# longer than the whole rest of a call.
_ndarray = _numpy.ndarray if _numpy is not None else None
_u8, _i8, _f4 = (_numpy.dtype(x) if _numpy is not None else None for x in ("uint64", "int64", "float32"))
_addressof, _byte_at = ctypes.addressof, ctypes.c_char.from_buffer

_KEY_FORMATS = {"Q", "q", "L", "l", "=Q", "=q", "<Q", "<q", "@Q", "@q", "<L", "<l"}
_FLOAT_FORMATS = {"f", "=f", "<f", "@f"}
_KEY_TYPES = {"<u8", "<i8"}


def _stream(x: Any) -> Optional[int]:
    """The CUDA stream that work on x is put on, None where x is in the host's memory."""
    if type(x) is _ndarray or x is None:
        return None
    if hasattr(x, "data_ptr"):
        if x.device.type != "cuda":
            return None
        return sys.modules["torch"].cuda.current_stream(x.device).cuda_stream
    describe = getattr(x, "__cuda_array_interface__", None)
    return None if describe is None else describe.get("stream") or 0


def _interface(x: Any, describe: Any, keys: bool, write: bool, what: str) -> Tuple[int, int, Any]:
    """What NumPy's interface describes, or CUDA's like it."""
    if describe["typestr"] not in (_KEY_TYPES if keys else ("<f4",)):
        raise TypeError(f"psrt: {what}, not {describe['typestr']}: use .astype")
    if describe.get("mask") is not None or _numpy is not None and isinstance(x, _numpy.ma.MaskedArray):
        raise TypeError(f"psrt: {what}, without a mask: use .filled")
    if describe.get("strides") is not None:
        raise ValueError("psrt: the array is not contiguous: use numpy.ascontiguousarray")
    data = describe.get("data")
    if not isinstance(data, tuple):
        raise TypeError(f"psrt: a {type(x).__name__} does not say where its data are: use numpy.asarray")
    address, read_only = data
    if write and read_only:
        raise ValueError("psrt: the array is read-only")
    n = 1
    for d in describe["shape"]:
        n *= d
    return address, n, (x, describe)


def _tensor(x: Any, keys: bool, device: bool, what: str) -> Tuple[int, int, Any]:
    """A tensor of PyTorch."""
    if str(x.layout) != "torch.strided":
        how = "its .coalesce() has keys in .indices()[0] and gradients in .values()" if str(x.layout) == "torch.sparse_coo" else "use .to_dense()"
        raise TypeError(f"psrt: {what}, not a sparse tensor ({x.layout}): {how}")
    if x.device.type != "cpu" and not (device and x.device.type == "cuda"):
        raise ValueError(f"psrt: {what}, and this tensor is on {x.device}: use .cpu()")
    if str(x.dtype) not in (("torch.int64", "torch.uint64") if keys else ("torch.float32",)):
        raise TypeError(f"psrt: {what}, not {x.dtype}: use .to(torch.{'int64' if keys else 'float32'})")
    if not x.is_contiguous():
        raise ValueError("psrt: the tensor is not contiguous: use .contiguous()")
    if x.is_neg():
        raise ValueError("psrt: the tensor is a view with its sign changed: use .resolve_neg()")
    return x.data_ptr(), x.numel(), x


def _buffer(x: Any, keys: bool, write: bool, device: bool = False) -> Tuple[int, int, Any]:
    """The address of x, its elements, and what must live as long as the address is used.

    With device it may be in a GPU's memory.
    """
    if type(x) is _ndarray and x.size and x.flags.carray:
        dtype = x.dtype
        if dtype is (_u8 if keys else _f4) or keys and dtype is _i8:
            return _addressof(_byte_at(x)), x.size, x
    what = "keys must be 64-bit integers" if keys else "values and gradients must be 32-bit floats"
    if x is None:
        raise TypeError(f"psrt: {what}, not None" + ("" if keys else ": PyTorch's .grad is None before backward(), and of what no loss depends on"))
    if _numpy is not None and isinstance(x, _numpy.generic):
        if write:
            raise TypeError(f"psrt: a NumPy scalar ({type(x).__name__}) cannot be written to: use an array")
        x = _numpy.array(x)  # a scalar shows the memory of a copy that nobody keeps
    if hasattr(x, "data_ptr"):
        return _tensor(x, keys, device, what)
    describe = getattr(x, "__array_interface__", None)
    if describe is not None:  # NumPy and its like
        return _interface(x, describe, keys, write, what)
    describe = getattr(x, "__cuda_array_interface__", None)
    if describe is not None:
        if not device:
            raise ValueError("psrt: the array is in a GPU's memory: copy it to the host's")
        return _interface(x, describe, keys, write, what)
    if keys and isinstance(x, (list, tuple, range)):
        try:
            x = array.array("Q", x)
        except (OverflowError, TypeError):
            bad = next((k for k in x if not hasattr(k, "__index__") or not 0 <= k < 1 << 64), None)
            raise (ValueError if hasattr(bad, "__index__") else TypeError)(f"psrt: {what} of 0 to 2**64-1, not {bad!r}") from None
    try:
        view = memoryview(x)
    except TypeError:
        raise TypeError(f"psrt: {what} in an array, tensor or buffer, not {type(x).__name__}: use numpy.asarray") from None
    if view.format not in (_KEY_FORMATS if keys else _FLOAT_FORMATS) or view.itemsize != (8 if keys else 4):
        raise TypeError(f"psrt: {what}, not format {view.format!r}")
    if not view.c_contiguous:
        raise ValueError("psrt: the buffer is not contiguous")
    n = view.nbytes // view.itemsize
    if view.readonly:
        if write:
            raise ValueError("psrt: the buffer is read-only")
        copied = (ctypes.c_char * view.nbytes).from_buffer_copy(view)  # ctypes finds addresses of writable memory only
        return ctypes.addressof(copied), n, copied
    held = (ctypes.c_char * view.nbytes).from_buffer(view.cast("B") if n else bytearray())
    return ctypes.addressof(held), n, (held, view)


def _floats(n: int, dim: int) -> Any:
    if _numpy is not None:
        return _numpy.empty((n, dim), _numpy.float32)
    return array.array("f", bytes(4 * n * dim))


def _micros(seconds: Optional[float]) -> int:
    if seconds is None:
        return 0
    try:
        micros = float(seconds) * 1e6 if not isinstance(seconds, str) else None
    except (TypeError, ValueError):
        micros = None
    if micros is None:
        raise TypeError(f"psrt: a timeout of {seconds!r}, want a number of seconds, such as 3.5")
    if not 0 < micros < 1 << 63:
        raise ValueError(f"psrt: a timeout of {seconds} seconds, want more than 0 and less than 9e12")
    return max(1, int(micros))


def _text(value: Union[str, bytes, os.PathLike], what: str) -> bytes:
    """A text for C, which ends at the first zero byte."""
    text = os.fsencode(value)
    if b"\0" in text:
        raise ValueError(f"psrt: {what} {value!r} has a zero byte in it")
    return text


def _options(flags: int, timeout: Optional[float], eventfd: Optional[int] = None, at: Any = None) -> Optional[_Options]:
    """The options of a call; at is where its values or gradients lie."""
    stream = _stream(at)
    if not flags and timeout is None and eventfd is None and stream is None:
        return None
    return _Options(ctypes.sizeof(_Options), flags | (0 if stream is None else _DEVICE), _micros(timeout), 0, None, None,
                    -1 if eventfd is None else eventfd, eventfd is not None, stream)


def _push_flags(on_refused: str) -> int:
    if on_refused == "raise":
        return _CHECK_FINITE
    if on_refused != "count":
        raise ValueError(f'psrt: on_refused is {on_refused!r}, want "count" or "raise"')
    return 0


def _pointer(options: Optional[_Options]) -> Optional[int]:
    return None if options is None else ctypes.addressof(options)


# -------------------------------------------------------------------- requests

class Request(_Own):
    """A call under way. `wait()` it, `await` it, or ask `done()`; then `result` is what the call gives.

    The arrays of the call are kept alive until then, also where the request is forgotten
    or its awaiting task is cancelled: it goes on, and must not be taken for done.
    """

    def __init__(self, client: "Client", keep: Any, result: Any):
        _sweep()
        self.result = result
        self._client = client
        self._keep = keep
        self._handle = c_void_p()
        self._fd: Optional[int] = client._take_fd()
        self._status: Optional[int] = None
        self._message = ""
        self._push = 0
        self._pushes = False

    def _begin(self, status: int) -> "Request":
        if status != 0:
            self._settle(0)  # the handle is none: nothing is under way
            _fail(status)
        return self

    @property
    def fileno(self) -> int:
        """An eventfd that becomes readable when the request is done, for select and the like."""
        if self._fd is None:
            raise ValueError("psrt: the request is collected already")
        return self._fd

    def done(self) -> bool:
        """Whether the call has ended, well or not. Never waits, never raises for the call's sake."""
        if self._status is None:
            done = c_int()
            status = _lib.psrt_test(self._handle, byref(done))
            if done.value or status != 0:
                self._settle(status)
        return self._status is not None

    def wait(self, timeout: Optional[float] = None) -> Any:
        """Wait for the call, at most `timeout` seconds if given, and return its result.

        Raises what the call failed with, or Timeout where the time has passed; the
        request then goes on and can be waited for again.
        """
        end = None if timeout is None else time.monotonic() + _micros(timeout) / 1e6
        poll = None
        while not self.done():
            if end is not None and time.monotonic() >= end:
                raise Timeout(_ETIMEDOUT, f"psrt: the request is not done after {timeout} seconds; it goes on")
            if poll is None:
                poll = select.poll()
                poll.register(self.fileno, select.POLLIN)
            poll.poll(_SLICE / 1e3 if end is None else min(_SLICE, max(1, 1e6 * (end - time.monotonic()))) / 1e3)
        if self._status:
            _fail(self._status, self._message, self._push)
        return self.result

    def _settle(self, status: int) -> None:
        if self._pushes and status == 0 and self._handle:
            self.result = _lib.psrt_last_refused()
        if status != 0:
            self._message, self._push = _why()
        self._status, self._keep = status, None
        fd, self._fd = self._fd, None
        if fd is not None:
            self._client._give_fd(fd)

    def __await__(self) -> Generator[Any, None, Any]:
        while not self.done():
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            fd = self.fileno
            loop.add_reader(fd, lambda: future.done() or future.set_result(None))
            try:
                yield from future
            finally:
                loop.remove_reader(fd)
        return self.wait()

    def __del__(self) -> None:
        if getattr(self, "_status", 0) is None and self._handle.value:
            _left[self._handle.value] = self  # it lives on, and has its arrays and its eventfd
        elif getattr(self, "_fd", None) is not None and self._status is None:  # it never began
            self._client._give_fd(self._fd)


# ---------------------------------------------------------------------- tables

class TableInfo(NamedTuple):
    """What a table is."""
    dim: int
    id: int
    row_bytes: int
    optimizer: str


class PushPart(NamedTuple):
    """One server lane's part of a push that failed, with replicas one group's."""
    state: int
    part: int
    server: int
    table: int
    ends_step: bool
    rows: int


class Table(_Own):
    """One sparse table, from Client.table. It ends with its client."""

    def __init__(self, client: "Client", name: str):
        self.client, self.name = client, name
        self._handle = c_void_p()
        self._h = 0
        _call(None, _lib.psrt_table_open, client._handle, _text(name, "the table's name"), byref(self._handle))
        self._h = self._handle.value
        info = _Info(ctypes.sizeof(_Info))
        _call(None, _lib.psrt_table_get_info, self._h, byref(info))
        self.info = TableInfo(info.dim, info.id, info.row_bytes, info.optimizer.decode())
        self.dim = self.info.dim
        """Floats in a row."""

    def __repr__(self) -> str:
        return f"<psrt.Table {self.name!r} dim {self.dim} {self.info.optimizer}>"

    def _values(self, n: int, out: Any) -> Tuple[Any, int, Any]:
        if out is None:
            out = _floats(n, self.dim)
        address, floats, keep = _buffer(out, False, True, True)
        if floats != n * self.dim:
            raise ValueError(f"psrt: out has {floats} floats, {n} keys of table {self.name} need {n * self.dim}")
        return out, address, keep

    def _grads(self, n: int, grads: Any) -> Tuple[int, Any]:
        address, floats, keep = _buffer(grads, False, False, True)
        if floats != n * self.dim:
            raise ValueError(f"psrt: {floats} gradients, {n} keys of table {self.name} need {n * self.dim}")
        return address, keep

    def pull(self, keys: Any, out: Any = None, *, flags: int = 0, timeout: Optional[float] = None) -> Any:
        """The rows of keys, n x dim, in `out` where it is given. Missing rows are made."""
        k, n, keep = _buffer(keys, True, False)
        out, v, keep_out = self._values(n, out)
        options = _options(flags, timeout, at=out)
        _call((keep, keep_out, options), _lib.psrt_pull_sparse_opt, self._h, k, n, v, None, _pointer(options))
        return out

    def pull_ticket(self, keys: Any, out: Any = None, *, flags: int = 0, timeout: Optional[float] = None) -> Tuple[Any, int]:
        """The rows, and a ticket by which push_ticket names the same keys without sending them again."""
        k, n, keep = _buffer(keys, True, False)
        out, v, keep_out = self._values(n, out)
        options, ticket = _options(flags, timeout, at=out), c_uint64()
        _call((keep, keep_out, options, ticket), _lib.psrt_pull_sparse_opt, self._h, k, n, v, ctypes.addressof(ticket), _pointer(options))
        return out, ticket.value

    def push(self, keys: Any, grads: Any, *, timeout: Optional[float] = None, on_refused: str = "count") -> int:
        """Send a gradient for each key, and return when the servers have applied them.

        Servers leave a row as it is where its gradient is not finite (NaN or infinite). The number of
        these rows is returned, and the other rows change. With on_refused="raise" such rows raise
        Error ENOTFINITE after that. Under bsp clock() returns the number, or raises.
        """
        k, n, keep = _buffer(keys, True, False)
        g, keep_grads = self._grads(n, grads)
        options = _options(_push_flags(on_refused), timeout, at=grads)
        return _push_call((keep, keep_grads, options), _lib.psrt_push_sparse_opt, self._h, k, n, g, _pointer(options))

    def push_states(self, push: int, keys: Any) -> bytes:
        """What has become of each key in a push that failed (Error.push): PUSH_APPLIED, PUSH_MISSING, PUSH_UNKNOWN."""
        k, n, keep = _buffer(keys, True, False)
        states = (ctypes.c_uint8 * n)()
        _call((keep, states), _lib.psrt_push_states, self._h, push, k, n, ctypes.addressof(states) if n else None)
        return bytes(states)

    def push_missing(self, push: int, keys: Any, grads: Any, *, timeout: Optional[float] = None) -> None:
        """Repeat exactly what is missing of a push that failed, with its keys and gradients.

            try:
                table.push(keys, grads)
            except psrt.Error as e:
                if not e.push:
                    raise
                table.push_missing(e.push, keys, grads)

        It waits until every part is known. When it returns each key counts once; when it
        fails it may be called again with the same number.
        """
        k, n, keep = _buffer(keys, True, False)
        g, keep_grads = self._grads(n, grads)
        options = _options(0, timeout, at=grads)
        _call((keep, keep_grads, options), _lib.psrt_push_missing, self._h, push, k, n, g, _pointer(options))

    def push_counts(self, keys: Any, grads: Any, *, shows: Any = None, clicks: Any = None, slots: Any = None,
                    timeout: Optional[float] = None, on_refused: str = "count") -> int:
        """push to a table with a lifecycle: how often each key was shown (once) and clicked
        (never), float32, and its slot (0), uint32."""
        k, n, keep = _buffer(keys, True, False)
        g, keep_grads = self._grads(n, grads)
        options, counts, kept = _options(_push_flags(on_refused), timeout, at=grads), [], []
        for name, a in (("shows", shows), ("clicks", clicks), ("slots", slots)):
            if a is None:
                counts.append(None)
                continue
            if name == "slots":
                a = array.array("I", (int(x) for x in a))  # 32 bits wherever psrt runs
                address, have = a.buffer_info()
            else:
                address, have, a = _buffer(a, False, False)
            if have != n:
                raise ValueError(f"psrt: {have} {name}, {n} keys of table {self.name} need {n}")
            counts.append(address)
            kept.append(a)
        return _push_call((keep, keep_grads, options, kept), _lib.psrt_push_sparse_counts, self._h, k, n, g, *counts, _pointer(options))

    def shrink(self) -> None:
        """Shows and clicks decay, and rows go that are not worth their place."""
        _call(None, _lib.psrt_table_shrink, self._h)

    def end_day(self) -> None:
        """A day passes: rows that nobody pushes to grow old."""
        _call(None, _lib.psrt_table_end_day, self._h)

    def push_ticket(self, ticket: int, grads: Any, *, timeout: Optional[float] = None, on_refused: str = "count") -> int:
        """push for the keys of a pull_ticket, once. Error ESTALE: push with keys."""
        g, floats, keep = _buffer(grads, False, False, True)
        options = _options(_push_flags(on_refused), timeout, at=grads)
        return _push_call((keep, options), _lib.psrt_push_sparse_ticket_opt, self._h, ticket, floats // self.dim, g, _pointer(options))

    def pull_async(self, keys: Any, out: Any = None, *, flags: int = 0, timeout: Optional[float] = None) -> Request:
        """pull that returns at once; the request's result is the rows."""
        k, n, keep = _buffer(keys, True, False)
        out, v, keep_out = self._values(n, out)
        r = Request(self.client, (keep, keep_out), out)
        options = _options(flags, timeout, r._fd, out)
        return r._begin(_lib.psrt_pull_sparse_async(self._h, k, n, v, None, _pointer(options), byref(r._handle)))

    def push_async(self, keys: Any, grads: Any, *, timeout: Optional[float] = None, on_refused: str = "count") -> Request:
        """push that returns at once; the request's result is push's. grads must not change until it is done."""
        k, n, keep = _buffer(keys, True, False)
        g, keep_grads = self._grads(n, grads)
        r = Request(self.client, (keep, keep_grads), 0)
        r._pushes = True
        options = _options(_push_flags(on_refused), timeout, r._fd, grads)
        return r._begin(_lib.psrt_push_sparse_async(self._h, k, n, g, _pointer(options), byref(r._handle)))

    def plan(self, keys: Any) -> Tuple[Any, Any]:
        """(unique, index): the distinct keys in the servers' order, and keys[i] == unique[index[i]].

        To pull `unique` and to add up gradients by `index` saves the library doing so.
        """
        k, n, keep = _buffer(keys, True, False)
        if _numpy is not None:
            unique, index = _numpy.empty(n, _numpy.uint64), _numpy.empty(n, _numpy.int32)
            u, x = unique.ctypes.data, index.ctypes.data
        else:
            unique, index = array.array("Q", bytes(8 * n)), array.array("i", bytes(4 * n))
            u, x = unique.buffer_info()[0], index.buffer_info()[0]
        count = c_size_t()
        _call((keep, unique, index), _lib.psrt_plan, self._h, k, n, u, x, byref(count))
        return unique[:count.value], index

    def prefetch(self, keys: Any) -> None:
        """Tell the servers that the keys will be pulled soon."""
        k, n, keep = _buffer(keys, True, False)
        _call(keep, _lib.psrt_prefetch, self._h, k, n)


# ---------------------------------------------------------------------- client

class Client(_Own):
    """A connection to the servers. Close it, or use it in a `with` statement.

    The arguments are those of psrt.h's configuration: servers, token_file, worker,
    workers, transport, timeout ("30s"), tables and others. `config` may be a
    mapping of them, or YAML text.
    """

    def __init__(self, config: Union[str, Mapping[str, Any], None] = None, **settings: Any):
        self._closed = True  # until it is open
        self._handle = c_void_p()
        self._lent: dict[int, Any] = {}  # what servers may reach, by address
        self._fds: list[int] = []
        self._fd_lock = threading.Lock()
        self._tables: dict[str, Table] = {}
        if isinstance(config, str):
            if settings:
                raise TypeError("psrt: YAML text and keyword arguments at once: use one of them")
            text = config
        else:
            given = {**(config or {}), **settings}
            if isinstance(given.get("servers"), str):
                raise TypeError(f"psrt: servers is a list of addresses, [{given['servers']!r}], not a text")
            text = json.dumps(given)  # JSON is YAML
        _slice_main()
        try:
            _call(None, _lib.psrt_client_open, _text(text, "the configuration"), byref(self._handle))
        finally:
            self._closed = not self._handle.value

    def close(self) -> None:
        """End the client: requests under way fail, arrays of `empty` must not be touched any more.

        Where it is interrupted the library goes on to close it.
        """
        if self._closed:
            return
        self._closed = True
        try:
            _call(self._lent, _lib.psrt_client_close, self._handle)
        finally:
            with self._fd_lock:
                fds, self._fds = self._fds, []
            for fd in fds:
                os.close(fd)
            _sweep()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_closed", True):
            try:
                self.close()
            except Exception:  # a fork, or the interpreter is ending
                pass

    def _take_fd(self) -> int:
        with self._fd_lock:
            if self._fds:
                return self._fds.pop()
        return os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def _give_fd(self, fd: int) -> None:
        try:
            os.read(fd, 8)  # so that it is not readable for the next request
        except BlockingIOError:
            pass
        with self._fd_lock:
            if not self._closed and len(self._fds) < 64:
                self._fds.append(fd)
                return
        os.close(fd)

    def table(self, name: str) -> Table:
        """Open a table. Error ENOTABLE: nobody describes it; EMISMATCH: it is another one than `tables` says."""
        t = self._tables.get(name)
        if t is None:
            t = self._tables[name] = Table(self, name)
        return t

    # Dense vector.

    def dense_size(self) -> int:
        """Floats of the dense vector; 0 where there is none."""
        n = c_size_t()
        _call(None, _lib.psrt_dense_size, self._handle, byref(n))
        return n.value

    def dense_range(self, name: str) -> slice:
        """Where the part of that name lies in the dense vector."""
        first, n = c_size_t(), c_size_t()
        _call(None, _lib.psrt_dense_range, self._handle, _text(name, "the name"), byref(first), byref(n))
        return slice(first.value, first.value + n.value)

    def pull_dense(self, out: Any = None, *, flags: int = 0, timeout: Optional[float] = None) -> Any:
        """The whole dense vector."""
        if out is None:
            n = self.dense_size()
            out = _numpy.empty(n, _numpy.float32) if _numpy is not None else array.array("f", bytes(4 * n))
        v, n, keep = _buffer(out, False, True, True)
        options = _options(flags, timeout, at=out)
        _call((keep, options), _lib.psrt_pull_dense_opt, self._handle, v, n, _pointer(options))
        return out

    def push_dense(self, grads: Any, *, timeout: Optional[float] = None, on_refused: str = "count") -> int:
        """A gradient for the whole dense vector."""
        g, n, keep = _buffer(grads, False, False, True)
        options = _options(_push_flags(on_refused), timeout, at=grads)
        return _push_call((keep, options), _lib.psrt_push_dense_opt, self._handle, g, n, _pointer(options))

    def pull_dense_async(self, out: Any, *, flags: int = 0, timeout: Optional[float] = None) -> Request:
        """pull_dense that returns at once."""
        v, n, keep = _buffer(out, False, True, True)
        r = Request(self, keep, out)
        options = _options(flags, timeout, r._fd, out)
        return r._begin(_lib.psrt_pull_dense_async(self._handle, v, n, _pointer(options), byref(r._handle)))

    def push_dense_async(self, grads: Any, *, timeout: Optional[float] = None, on_refused: str = "count") -> Request:
        """push_dense that returns at once."""
        g, n, keep = _buffer(grads, False, False, True)
        r = Request(self, keep, 0)
        r._pushes = True
        options = _options(_push_flags(on_refused), timeout, r._fd, grads)
        return r._begin(_lib.psrt_push_dense_async(self._handle, g, n, _pointer(options), byref(r._handle)))

    # Memory that servers reach themselves.

    def empty(self, shape: Union[int, Sequence[int]]) -> Any:
        """A NumPy array of float32 that servers read and write without a copy.

        It belongs to the client: after close() it must not be touched.
        """
        if _numpy is None:
            raise ImportError("psrt: empty() needs NumPy")
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        n = 1
        for d in shape:
            n *= d
        address = c_void_p()
        _call(None, _lib.psrt_mem_alloc, self._handle, max(4, 4 * n), byref(address))
        held = (ctypes.c_float * n).from_address(address.value or 0)
        held._psrt_client = self  # the array keeps the client, and so the memory
        return _numpy.ctypeslib.as_array(held).reshape(shape)

    def free(self, memory: Any) -> None:
        """Give back what empty() gave, before close() does."""
        address, _, keep = _buffer(memory, False, False)
        _call(keep, _lib.psrt_mem_free, self._handle, address)

    def register(self, memory: Any) -> "_Registered":
        """Lend an array or tensor to the servers, so that RDMA reaches it without a copy.

        It may be in a GPU's memory, which not every network card reaches: see is_direct().
        Use it in a `with` statement, or call unregister() on what is returned. The client
        keeps the array alive until then.
        """
        address, n, keep = _buffer(memory, False, True, True)
        _call(keep, _lib.psrt_mem_register, self._handle, address, 4 * n)
        self._lent[address] = keep
        return _Registered(self, address)

    def is_direct(self, memory: Any) -> bool:
        """Whether all servers reach the memory themselves."""
        address, n, keep = _buffer(memory, False, False, True)
        direct = c_int()
        _call(keep, _lib.psrt_mem_is_direct, self._handle, address, 4 * n, byref(direct))
        return bool(direct.value)

    # All trainers together.

    def clock(self) -> int:
        """End this trainer's step; see psrt_clock in psrt.h. Returns the number of rows that the servers refused in this step (bsp), else 0."""
        return _push_call(None, _lib.psrt_clock, self._handle)

    def step(self) -> int:
        """The number of the current step."""
        n = c_uint64()
        _call(None, _lib.psrt_clock_now, self._handle, byref(n))
        return n.value

    def finish_steps(self) -> None:
        """Say that this trainer takes no more steps, so that with bsp and ssp the others wait for it no longer.

        What it pushed counts. It pushes nothing more; pulls and barriers go on.
        """
        _call(None, _lib.psrt_finish_steps, self._handle)

    def push_status(self, push: int) -> list[PushPart]:
        """What has become of each part of a push that failed: `Error.push`. With bsp it is all of a step's."""
        n, room = c_size_t(), 64
        while True:
            parts = (_Part * room)()
            parts[0].size = ctypes.sizeof(_Part)
            try:
                _call((parts, n), _lib.psrt_push_status, self._handle, push, ctypes.addressof(parts), room, byref(n))
            except Error as e:
                if e.status != _ETOOSMALL:
                    raise
                room = n.value
                continue
            return [PushPart(p.state, p.part, p.server, p.table, bool(p.ends_step), p.rows) for p in parts[:n.value]]

    def barrier(self) -> None:
        """Wait until every trainer of the job is here. One that has no more steps calls finish_steps() before."""
        _call(None, _lib.psrt_barrier, self._handle)

    def save(self, directory: Union[str, os.PathLike], *, flags: int = 0, timeout: Optional[float] = None) -> None:
        """Have the servers write all tables to a directory of theirs."""
        options = _options(flags, timeout)
        _call(options, _lib.psrt_save, self._handle, _text(directory, "the directory"), _pointer(options))

    def load(self, directory: Union[str, os.PathLike], *, timeout: Optional[float] = None) -> None:
        """Have the servers replace their tables by those in a directory."""
        options = _options(0, timeout)
        _call(options, _lib.psrt_load, self._handle, _text(directory, "the directory"), _pointer(options))

    def stats(self) -> dict:
        """Counts and facts about client and servers."""
        needed = c_size_t(4096)
        while True:
            text = ctypes.create_string_buffer(needed.value)
            try:
                _call(None, _lib.psrt_stats_json, self._handle, text, len(text), byref(needed))
                return json.loads(text.value)
            except Error as e:
                if e.status != _ETOOSMALL:
                    raise

    def noop(self) -> None:
        """What a call costs at least."""
        status = _lib.psrt_noop(self._handle)
        if status:
            _fail(status)


class _Registered(_Own):
    """Memory lent to the servers."""

    def __init__(self, client: Client, address: int):
        self._client, self._address = client, address

    def unregister(self) -> None:
        """Take the memory back: no server reaches it any more."""
        if self._address not in self._client._lent:
            return
        _call(None, _lib.psrt_mem_unregister, self._client._handle, self._address)
        del self._client._lent[self._address]

    def __enter__(self) -> "_Registered":
        return self

    def __exit__(self, *_: Any) -> None:
        self.unregister()
