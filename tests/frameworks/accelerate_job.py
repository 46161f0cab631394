"""Run by test_accelerate.py under torchrun: what each process saw, as JSON."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path

program, photographs, work = sys.argv[1:4]
specification = importlib.util.spec_from_file_location("accelerate_training", program)
assert specification is not None
assert specification.loader is not None
module = importlib.util.module_from_spec(specification)
specification.loader.exec_module(module)
options = json.loads(sys.argv[4])
found = module.train(photographs, 2, Path(work), **options)
name = f"{options.get('resume', False)}-{os.environ['RANK']}.json"
Path(work, name).write_text(json.dumps(found))
