"""The shared library and how Python loads it: symbols, layouts, loading, forks."""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import headrace
import processes
from headrace._engine import _lib, abi, decoder
from timing import within

PACKAGE = Path(headrace.__file__).parent
LIBRARY = PACKAGE / "libheadrace.so"
HEADER = PACKAGE / "headrace.h"


def python(program: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def symbols(option: str) -> set[str]:
    listing = subprocess.run(
        ["nm", "-D", option, str(LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in listing.splitlines()}


def test_the_library_exports_the_functions_of_its_header_and_nothing_else() -> None:
    declared = set(re.findall(r"^int32_t (hr_\w+)\(", HEADER.read_text(), re.MULTILINE))
    exported = {name.split("@")[0] for name in symbols("--defined-only")} - {"HEADRACE_1"}
    assert exported == declared
    assert set(abi.PROTOTYPES) == declared
    assert len(declared) <= 26


def test_the_thread_that_starts_the_engine_keeps_its_timer_slack_and_go_threads_have_more() -> None:
    said = python(
        """
        import ctypes, os
        from headrace._engine import abi, decoder, _lib
        libc = ctypes.CDLL(None)
        PR_SET_TIMERSLACK, PR_GET_TIMERSLACK = 29, 30
        libc.prctl(PR_SET_TIMERSLACK, 70_000, 0, 0, 0)
        _lib.library().hr_close(0, None)
        print(libc.prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0))
        for task in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/{task}/timerslack_ns") as file:
                    print(file.read().strip())
            except PermissionError:
                print("denied")
        """
    ).split()
    assert said[0] == "70000"
    if "denied" in said:
        pytest.skip("to see other threads' slack wants CAP_SYS_NICE; that of this one was right")
    assert "1000000" in said[1:]


def test_the_library_has_no_undefined_symbols_but_those_of_glibc() -> None:
    weak = {"_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__gmon_start__"}
    unversioned = {name for name in symbols("--undefined-only") if "@GLIBC_" not in name}
    assert unversioned <= weak
    needed = subprocess.run(
        ["readelf", "-d", str(LIBRARY)], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"\(NEEDED\).*\[(.*)\]", needed)) <= {
        "libc.so.6",
        "libm.so.6",
        "libpthread.so.0",
        "ld-linux-x86-64.so.2",
    }


def test_the_library_loads_with_ld_bind_now() -> None:
    program = "from headrace._engine import abi, _lib; print(_lib.library().hr_abi_version())"
    assert python(program, LD_BIND_NOW="1") == str(abi.ABI_VERSION)


def test_structures_have_the_layout_of_the_c_compiler(tmp_path: Path) -> None:
    pairs = {
        "hr_error": abi.Error,
        "hr_image": abi.Image,
        "hr_task": abi.Task,
        "hr_field": abi.Field,
        "hr_batch": abi.Batch,
        "hr_progress": abi.Progress,
    }
    lines, expected = [], []
    for name, structure in pairs.items():
        lines.append(f'printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(structure))
        for member, *_ in structure._fields_:
            lines.append(f'printf("%zu\\n", offsetof({name}, {member}));')
            expected.append(getattr(structure, member).offset)
    source = tmp_path / "layout.c"
    body = "\n".join(lines)
    source.write_text(f'#include <stdio.h>\n#include "headrace.h"\nint main(void) {{\n{body}\n}}\n')
    program = tmp_path / "layout"
    subprocess.run(["gcc", f"-I{HEADER.parent}", source, "-o", program], check=True)
    found = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    assert [int(line) for line in found.split()] == expected


def test_codes_and_versions_equal_those_of_the_header() -> None:
    text = HEADER.read_text()
    numbers = {name: int(value) for name, value in re.findall(r"\b(HR_[A-Z_]+) = (\d+)", text)}
    codes = {name: value for name, value in numbers.items() if not name.startswith("HR_TASK_")}
    from headrace._engine.codes import BY_CODE

    answers = {"HR_OK": abi.OK, "HR_END": abi.END, "HR_TIMEOUT": abi.TIMEOUT}
    answers["HR_SHORT_BUFFER"] = abi.SHORT_BUFFER
    assert {name: codes[name] for name in answers} == answers
    assert set(BY_CODE) == set(codes.values()) - set(answers.values())
    assert f"#define HR_ABI_VERSION {abi.ABI_VERSION}\n" in text
    assert f"#define HR_MAX_FIELDS {abi.MAX_FIELDS}\n" in text
    assert f"#define HR_MAX_DIMENSIONS {abi.MAX_DIMENSIONS}\n" in text


def test_a_packed_task_has_the_layout_of_its_structure() -> None:
    text = HEADER.read_text()
    flags = dict(re.findall(r"\bHR_TASK_([A-Z_]+) = (\d+)", text))
    for name, value in flags.items():
        assert getattr(decoder, f"_{name}") == int(value)
    assert decoder.TASK.size == ctypes.sizeof(abi.Task)
    values = range(1, 21)
    packed = abi.Task.from_buffer_copy(decoder.TASK.pack(*values))
    # In the order of packing: the members that say where the image is, its result, its key...
    assert [getattr(packed, name) for name, _ in abi.Task._fields_] == list(values)
    assert len(flags) == 3


def test_importing_loads_neither_torch_nor_the_engine() -> None:
    program = """
        import sys, headrace
        heavy = {"torch", "numpy", "typer", "rich", "PIL"} & set(sys.modules)
        print(sorted(heavy), "libheadrace" in open("/proc/self/maps").read())
    """
    assert python(program) == "[] False"


def test_without_torch_names_that_need_it_raise_an_error_and_dir_works() -> None:
    code = """
        import sys
        sys.modules["torch"] = None
        import importlib.util, inspect
        find = importlib.util.find_spec
        importlib.util.find_spec = lambda name: None if name == "torch" else find(name)
        import headrace
        assert "Loader" in dict(inspect.getmembers(headrace))
        try:
            from headrace import DataLoader
        except ImportError as failure:
            print(failure)
    """
    said = "headrace.DataLoader needs PyTorch, which is not installed: pip install torch"
    assert python(code) == said


def test_importing_takes_less_than_a_quarter_of_a_second() -> None:
    program = """
        import time
        begun = time.perf_counter()
        import headrace
        print(time.perf_counter() - begun)
    """
    within(0.25, lambda: float(python(program)))


def test_another_version_of_the_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(abi, "ABI_VERSION", 999)
    with pytest.raises(headrace.HeadraceError, match=r"version 2 of the C ABI .* version 999"):
        _lib._load()


FORK = """
    import os, sys, headrace as hr
    {before}
    child = os.fork()
    if child == 0:
        try:
            print(len(hr.Dataset(sys.argv[1] if len(sys.argv) > 1 else {folder!r})), flush=True)
        except hr.HeadraceError as failure:
            print(type(failure).__name__, "spawn" in str(failure), flush=True)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_a_child_forked_after_first_use_gets_an_error_in_one_sentence(folder: Path) -> None:
    program = FORK.format(before=f"hr.Dataset({str(folder)!r})", folder=str(folder))
    assert python(program) == "ForkedError True"


def test_a_child_forked_before_first_use_works(folder: Path) -> None:
    assert python(FORK.format(before="", folder=str(folder))) == "24"


def test_every_function_refuses_a_forked_child_before_entering_go() -> None:
    program = """
        import ctypes, os
        from headrace._engine import abi, decoder, _lib
        library = _lib.library()
        error, null = abi.Error(), None
        child = os.fork()
        if child == 0:
            for name, arguments in abi.PROTOTYPES.items():
                if name == "hr_abi_version":
                    continue
                numbers = (ctypes.c_int32, ctypes.c_int64, ctypes.c_size_t, ctypes.c_uint64)
                values = [kind() if kind in numbers else None for kind in arguments[:-1]]
                assert getattr(library, name)(*values, ctypes.byref(error)) == 16, name
                assert b"forked" in error.text
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print("refused")
    """
    assert python(program) == "refused"


def test_invalid_handles_are_errors_and_never_a_crash() -> None:
    library, error = _lib.library(), abi.Error()
    batch, buffer, need = abi.Batch(), ctypes.create_string_buffer(64), ctypes.c_size_t()
    for stray in (0, -1, 1, 3, 2**62):
        for code in (
            library.hr_close(stray, error),
            library.hr_next(stray, 0, batch, error),
            library.hr_release(stray, error),
            library.hr_seek(stray, 0, 0, error),
            library.hr_loader_info(stray, buffer, 64, need, error),
            library.hr_writer_finish(stray, error),
            library.hr_job_wait(stray, 0, None, error),
            library.hr_decoder_submit(stray, None, 0, _lib.c_int64(), error),
            library.hr_decoder_wait(stray, 0, None, error),
            library.hr_decoder_result(stray, 0, None, error),
        ):
            assert code == 4
            assert b"handle" in error.text


SIMD = """
    import sys, warnings
    import headrace as hr
    from headrace._engine.decoder import Decoder
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        if "decoder" in sys.argv:
            Decoder(1).close()
        for _ in range(2):
            with hr.Loader(sys.argv[1], 8, transform=[hr.transforms.CenterCrop(8)]) as loader:
                list(loader)
    print(*[one.message for one in said], sep="|")
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", ["loader", "decoder"])
def test_an_unknown_instruction_set_is_one_warning_that_lists_the_available_ones(
    packed: Path, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    monkeypatch.setenv("HEADRACE_SIMD", "sse9")
    said = processes.run(SIMD, packed, first).strip()
    wanted = 'HEADRACE_SIMD is "sse9" (expected scalar, avx2 or avx512), so scalar code is used'
    assert said == f"headrace: {wanted}"
    monkeypatch.setenv("HEADRACE_SIMD", "scalar")
    assert processes.run(SIMD, packed, first).strip() == ""
