"""Run by test_accelerate.py under torchrun: writes what each process saw as JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

import torch
from accelerate import Accelerator

import headrace as hr

program, photographs, work = sys.argv[1:4]
specification = importlib.util.spec_from_file_location("accelerate_training", program)
assert specification is not None
assert specification.loader is not None
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
options = json.loads(sys.argv[4])
found = module.train(photographs, 2, Path(work), **options)

# The samples of each step of this process: by Headrace, and by Accelerate over torch's loader.
accelerator = Accelerator(cpu=True)
numbers = torch.utils.data.DataLoader(range(256), batch_size=8)
theirs = [batch.tolist() for batch in accelerator.prepare(numbers)]
crop = [hr.transforms.CenterCrop(8)]
with hr.Loader(photographs, 8, transform=crop, fields=["index"]) as loader:
    ours = [more["index"].tolist() for _, _, more in accelerator.prepare(loader)]
name = f"{options.get('resume', False)}-{os.environ['RANK']}.json"
Path(work, name).write_text(json.dumps([*found, ours, theirs]))
