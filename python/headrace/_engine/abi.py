"""The C ABI for ctypes: numbers, structures and the parameters of each function, as in
``capi/headrace.h``."""

from __future__ import annotations

import ctypes
import errno
import os
from ctypes import (
    POINTER,
    c_char,
    c_char_p,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)
from typing import Any

from headrace._engine.codes import BY_CODE
from headrace.errors import HeadraceError, InternalError, MissingFileError, SystemFailure

ABI_VERSION = 2
MAX_FIELDS = 40
MAX_DIMENSIONS = 5

# The kinds of spans of hr_span.
SPAN_NEXT, SPAN_WAIT, SPAN_COPY = 0, 1, 2

OK, END, TIMEOUT, SHORT_BUFFER, BAD_HANDLE, CLOSED = 0, 1, 2, 3, 4, 17

# What is said of an object that was closed.
WAS_CLOSED = "this object was closed"


class Error(ctypes.Structure):
    """``hr_error``."""

    _fields_ = (
        ("code", c_int32),
        ("os_error", c_int32),
        ("record", c_int64),
        ("offset", c_int64),
        ("file", c_char * 1024),
        ("text", c_char * 1024),
    )

    def exception(self) -> HeadraceError:
        """Returns the exception to raise for it."""
        kind = BY_CODE.get(self.code, InternalError)
        if kind is SystemFailure and self.os_error == errno.ENOENT:
            kind = MissingFileError
        text = self.text.decode("utf-8", "replace") or f"error {self.code} without a text"
        if self.code == BAD_HANDLE:  # the engine names a number, which means nothing in Python
            text = WAS_CLOSED
        failure = kind(
            text,
            file=os.fsdecode(self.file) or None,
            record=self.record if self.record >= 0 else None,
            offset=self.offset if self.offset >= 0 else None,
        )
        if isinstance(failure, OSError):
            failure.errno, failure.filename = self.os_error or None, failure.file
        return failure


class Image(ctypes.Structure):
    """``hr_image``."""

    _fields_ = (("width", c_uint32), ("height", c_uint32), ("bytes", c_uint64))


class Task(ctypes.Structure):
    """``hr_task``."""

    _fields_ = (
        ("bytes", c_void_p),
        ("length", c_size_t),
        ("path", c_void_p),
        ("path_length", c_size_t),
        ("config", c_void_p),
        ("config_length", c_size_t),
        ("data", c_void_p),
        ("capacity", c_size_t),
        ("seed", c_uint64),
        ("epoch", c_uint64),
        ("sample", c_uint64),
        ("draw", c_uint64),
        ("device", c_uint64),
        ("inode", c_uint64),
        ("size", c_int64),
        ("mtime_ns", c_int64),
        ("view", c_uint32),
        ("flags", c_uint32),
        ("descriptor", c_int32),
        ("reserved", c_uint32),
    )


class Field(ctypes.Structure):
    """``hr_field``."""

    _fields_ = (
        ("name", c_char * 32),
        ("data", c_void_p),
        ("bytes", c_uint64),
        ("shape", c_int64 * MAX_DIMENSIONS),
        ("strides", c_int64 * MAX_DIMENSIONS),
        ("ndim", c_int32),
        ("dtype_code", c_uint8),
        ("dtype_bits", c_uint8),
        ("reserved", c_uint16),
    )


class Batch(ctypes.Structure):
    """``hr_batch``."""

    _fields_ = (
        ("batch", c_int64),
        ("epoch", c_int64),
        ("step", c_int64),
        ("length", c_int64),
        ("tag", c_int64),
        ("replaced", c_int32),
        ("field_count", c_int32),
        ("form", c_int64),
        ("fields", Field * MAX_FIELDS),
    )


class Progress(ctypes.Structure):
    """``hr_progress``."""

    _fields_ = (
        ("done", c_int64),
        ("total", c_int64),
        ("bytes", c_int64),
        ("faults", c_int64),
    )


_HANDLE = c_int64
_TEXT_OUT = (c_void_p, c_size_t, POINTER(c_size_t))
_ERROR = POINTER(Error)
PROTOTYPES: dict[str, tuple[Any, ...]] = {
    "hr_abi_version": (),
    "hr_close": (_HANDLE, _ERROR),
    "hr_dataset_open": (c_char_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_dataset_info": (_HANDLE, c_int64, *_TEXT_OUT, _ERROR),
    "hr_dataset_read": (_HANDLE, c_int64, *_TEXT_OUT, _ERROR),
    "hr_decode": (
        *(c_void_p, c_size_t, c_char_p, c_size_t, c_void_p, c_size_t),
        *(POINTER(Image), _ERROR),
    ),
    "hr_decoder_open": (c_char_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_decoder_submit": (_HANDLE, c_void_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_decoder_wait": (_HANDLE, c_int64, POINTER(c_uint64), _ERROR),
    "hr_decoder_result": (_HANDLE, c_uint64, POINTER(Image), _ERROR),
    "hr_loader_open": (_HANDLE, c_char_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_seek": (_HANDLE, c_int64, c_int64, _ERROR),
    "hr_submit": (_HANDLE, POINTER(c_int64), POINTER(c_uint64), c_size_t, _ERROR),
    "hr_next": (_HANDLE, c_int64, POINTER(Batch), _ERROR),
    "hr_release": (_HANDLE, _ERROR),
    "hr_lend": (_HANDLE, c_void_p, c_uint64, c_int64, _ERROR),
    "hr_loader_info": (_HANDLE, *_TEXT_OUT, _ERROR),
    "hr_loader_event": (_HANDLE, POINTER(c_int32), _ERROR),
    "hr_trace": (_HANDLE, c_char_p, c_size_t, _ERROR),
    "hr_span": (_HANDLE, c_int32, c_int64, c_int64, c_int64, c_int64, _ERROR),
    "hr_job_start": (c_char_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_job_wait": (_HANDLE, c_int64, POINTER(Progress), _ERROR),
    "hr_job_result": (_HANDLE, *_TEXT_OUT, _ERROR),
    "hr_writer_open": (c_char_p, c_size_t, POINTER(_HANDLE), _ERROR),
    "hr_writer_add": (_HANDLE, c_char_p, c_size_t, c_char_p, c_size_t, _ERROR),
    "hr_writer_finish": (_HANDLE, _ERROR),
}
