"""``headrace run``: runs programs that know nothing of Headrace as Python runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import images


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return images.plain_tree(tmp_path_factory.mktemp("running") / "photos", 7)


def python(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    options["env"] = {**os.environ, **options.get("env", {})}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=250, **options)


def run(*arguments: Any, **options: Any) -> subprocess.CompletedProcess[str]:
    return python("-m", "headrace", "run", *arguments, **options)


TRAINS = """
import sys
import torch
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torchvision import datasets, transforms as tv

STEPS = tv.Compose([tv.Resize((16, 16)), tv.ToTensor()])

class Brighter(Dataset):
    def __init__(self, folder, brighter):
        self.folder, self.brighter = folder, brighter
    def __len__(self):
        return len(self.folder)
    def __getitem__(self, index):
        image = STEPS(self.folder[index][0])
        return image, image.sqrt() if self.brighter else image

if __name__ == "__main__":
    torch.manual_seed(0)
    photos = datasets.ImageFolder(sys.argv[1], STEPS)
    total = 0.0
    for _ in range(2):
        loader = DataLoader(photos, 3, shuffle=True)
        total += sum(float(images.double().sum()) for images, _ in loader)
    plain = datasets.ImageFolder(sys.argv[1])
    spawned = DataLoader(Brighter(plain, False), 4, num_workers=1, multiprocessing_context="spawn")
    total += sum(float(second.double().sum()) for _, second in spawned)
    brighter = DataLoader(Brighter(plain, True), 4)
    total += sum(float(second.double().sum()) for _, second in brighter)
    total += sum(float(ones.sum()) for ones, in DataLoader(TensorDataset(torch.ones(3))))
    torch.utils.data.dataloader.DataLoader(photos)
    print(f"{total:.9f}", type(loader).__module__)
    sys.exit(7)
"""


@pytest.mark.slow
def test_a_program_gets_headraces_loaders_and_a_table_of_them_at_its_end(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(TRAINS)
    plain = python("train.py", root, cwd=tmp_path)
    found = run("train.py", root, cwd=tmp_path)
    assert (plain.returncode, found.returncode) == (7, 7), found.stderr
    assert plain.stdout.split() == [found.stdout.split()[0], "torch.utils.data.dataloader"]
    assert found.stdout.split()[1] == "headrace.dataloader"
    _, *rows = found.stderr[found.stderr.index("headrace: 6 loaders") :].splitlines()
    cure = [row for row in rows if row.startswith("      ")]
    told = [row.split("  ") for row in rows if row not in cure]
    assert [[cell.strip() for cell in row if cell] for row in told] == [
        ["train.py:23 (2 times)", "ImageFolder", "native"],
        ["train.py:26", "Brighter", "native"],
        [
            *("train.py:28", "Brighter", "partly"),
            "__main__.Brighter.__getitem__ needs the pixels (train.py:16)",
        ],
        ["train.py:30", "TensorDataset", "torch's", "its dataset opens no image"],
        ["train.py:31", "ImageFolder", "not used"],
    ]
    assert rows.index(cure[0]) == 3  # after the loader that it belongs to
    assert len(cure) == 1
    assert "a transform there that headrace.from_torchvision translates" in cure[0]


ARRAYS = """
import sys
import numpy as np, torch
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from pathlib import Path

class Arrays(Dataset):
    def __init__(self):
        self.paths = sorted(Path(sys.argv[1]).glob("*/*.jpg"))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        return torch.from_numpy(np.asarray(Image.open(self.paths[index]).resize((8, 8))).copy())

if __name__ == "__main__":
    for workers in (0, 1):
        list(DataLoader(Arrays(), 4, num_workers=workers))
"""


@pytest.mark.slow
def test_a_loader_whose_images_the_engine_makes_for_numpy_is_partly_native(
    root: Path, tmp_path: Path
) -> None:
    """In this process; in a worker, where Pillow makes them, the loader is torch's."""
    (tmp_path / "arrays.py").write_text(ARRAYS)
    found = run("arrays.py", root, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    told = [row.split()[1:] for row in found.stderr.splitlines() if row.startswith("  arrays.py")]
    needs = ["__main__.Arrays.__getitem__", "needs", "the", "pixels", "(arrays.py:14)"]
    assert told == [["Arrays", "partly", *needs], ["Arrays", "torch's", *needs]], found.stderr


PICTURES = """
import sys
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from pathlib import Path

class Pictures(Dataset):
    def __init__(self):
        self.paths = sorted(Path(sys.argv[1]).glob("*/*.jpg"))
    def __len__(self):
        return len(self.paths)
    def __getitem__(self, index):
        return Image.open(self.paths[index]).convert("RGB").resize((8, 8))

if __name__ == "__main__":
    for workers in (0, 1):
        list(DataLoader(Pictures(), 4, num_workers=workers, collate_fn=list))
"""


@pytest.mark.slow
def test_a_loader_whose_batches_hold_pil_images_of_the_engine_is_native(
    root: Path, tmp_path: Path
) -> None:
    (tmp_path / "pictures.py").write_text(PICTURES)
    found = run("pictures.py", root, cwd=tmp_path)
    assert found.returncode == 0, found.stderr
    told = [row.split()[1:] for row in found.stderr.splitlines() if row.startswith("  pictures.py")]
    assert told == [["(2", "times)", "Pictures", "native"]], found.stderr


TELLS = """
import sys, os
print(sys.argv, sys.path, sys.flags.dev_mode, sys.warnoptions)
print(__name__, __file__, __spec__ and __spec__.name, __package__, sorted(globals()))
"""


@pytest.mark.slow
def test_arguments_path_main_and_options_are_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    for name in ("tells.py", "package/__main__.py", "package/part.py"):
        (tmp_path / name).write_text(TELLS)
    arguments = ["--help", "-m", "a b", "--", "", "run"]
    programs = [["tells.py"], [tmp_path / "tells.py"], ["package"]]
    for program in (*programs, ["-m", "package"], ["-m", "package.part"]):
        plain = python(*program, *arguments, cwd=tmp_path)
        found = run(*program, *arguments, cwd=tmp_path)
        assert (found.stdout, found.stderr, found.returncode) == (plain.stdout, "", 0)
    options = ["-W", "error", "-X", "dev"]
    plain = python(*options, "tells.py", cwd=tmp_path)
    found = python(*options, "-m", "headrace", "run", "tells.py", cwd=tmp_path)
    assert found.stdout == plain.stdout
    assert "['error'" in found.stdout or "'error']" in found.stdout


@pytest.mark.every(3)
@pytest.mark.parametrize(
    "program",
    [
        "raise ValueError('no')",
        "import sys; sys.exit('words')",
        "import os; os._exit(3)",
        "def broken(:",
        "raise KeyboardInterrupt",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "import json; json.loads('{')",
    ],
)
def test_exit_statuses_and_tracebacks_are_as_under_python(program: str, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text(program)
    plain = python("fails.py", cwd=tmp_path)
    found = run("fails.py", cwd=tmp_path)
    assert plain.returncode != 0
    assert (found.returncode, found.stderr) == (plain.returncode, plain.stderr)


def test_a_missing_program_gives_pythons_error(tmp_path: Path) -> None:
    for program in (["none.py"], ["-m", "none"]):
        plain, found = python(*program, cwd=tmp_path), run(*program, cwd=tmp_path)
        assert plain.returncode != 0
        assert (found.returncode, found.stderr) == (plain.returncode, plain.stderr)
    asked = run()
    assert asked.returncode == 2
    assert "Missing argument 'PROGRAM'" in asked.stderr


def test_ctrl_c_reaches_the_program_itself(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('up', flush=True)\ntime.sleep(100)\n")
    command = [sys.executable, "-m", "headrace", "run", "waits.py"]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "up\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\n")
    assert "headrace" not in err


def test_a_sitecustomize_of_the_users_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text("print('mine', __name__)\n")
    (tmp_path / "tells.py").write_text(
        "import sys, sitecustomize; print(sitecustomize.__file__, sys.path)\n"
    )
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    plain = python("tells.py", cwd=tmp_path, env=environment)
    found = run("tells.py", cwd=tmp_path, env=environment)
    assert found.stdout.endswith(plain.stdout)
    # The headrace command itself is a Python process, too.
    assert found.stdout.count("mine sitecustomize") == 2


def test_a_python_that_ignores_its_environment_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tells.py").write_text("print('run')")
    found = python("-E", "-m", "headrace", "run", "tells.py", cwd=tmp_path)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr == "headrace: python -E or -I ignores what headrace run sets up\n"


RANKS = """
import os
import torch, torch.multiprocessing
from torch.utils.data import DataLoader

def rank(number):
    line = f"{DataLoader.__module__} {len(list(DataLoader([1, 2])))}\\n"
    os.write(1, line.encode())  # at once: two ranks write into one pipe

if __name__ == "__main__":
    torch.multiprocessing.spawn(rank, nprocs=2)
"""


@pytest.mark.slow
def test_spawned_ranks_and_child_pythons_have_headraces_loader_too(tmp_path: Path) -> None:
    (tmp_path / "ranks.py").write_text(RANKS)
    (tmp_path / "launches.py").write_text(
        "import subprocess, sys; subprocess.run([sys.executable, 'ranks.py'], check=True)"
    )
    found = run("launches.py", cwd=tmp_path)
    assert found.stdout == "headrace.dataloader 2\n" * 2, found.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    ["import headrace; headrace.DataLoader", "import headrace.torch", "import headrace.installing"],
)
def test_a_program_that_imports_headrace_first_has_its_loader_too(
    first: str, tmp_path: Path
) -> None:
    (tmp_path / "begins.py").write_text(
        f"{first}\nfrom torch.utils.data import DataLoader; print(DataLoader.__module__)"
    )
    found = run("begins.py", cwd=tmp_path)
    assert (found.stdout, found.stderr) == ("headrace.dataloader\n", "")
