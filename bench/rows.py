"""What is compared: every row of the tables, and the ratios that have a target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

SCALES = (0.08, 0.35, 1.0)  # the sweep's minimum scales
SIZES = (None, 512, 256)  # the sweep's shorter sides
CODINGS = ("4:4:4", "4:2:0", "progressive")


@dataclass(frozen=True)
class Row:
    """One loader at one task."""

    name: str
    group: str
    peer: str  # a module of bench/peers, or "kernel"
    form: str = "folder"  # what it reads; sides.py makes it from the set
    images: str = "original"  # the image set
    dtype: str = "float32"
    task: str = "train"
    size: int = 224
    scales: tuple[float, ...] = (0.08,)
    batch_size: int = 128
    warm_up: int = 8
    threads: int = 0  # 0: as many as there are cores to use
    mode: str = "exact"
    variant: str = ""
    cache: str = "off"  # the cache of what is learned of files: "off", or the row's "own"
    kernel: str = "bare kernel"  # the row of which this row's rate is a share


@dataclass(frozen=True)
class Target:
    """The ratio to a peer's row that a Headrace row has to reach."""

    ours: str
    theirs: str
    at_least: float
    moonshot: float


F32, F16 = "Headrace", "Headrace, float16"
Q90 = "Headrace, float16, FFCV's q90 bytes"
TORCHVISION, TF, DALI = "torchvision DataLoader", "tf.data", "DALI"
RAND_AUGMENT, SIMCLR = "RandAugment and RandomErasing", "SimCLR's colours and blur"
MIXED, UNMIXED = "MixUp or CutMix", "not mixed"
FFCV16 = "FFCV, float16, its q90 file"

TARGETS = (
    Target(F32, DALI, 3.0, 3.5),
    Target(F16, FFCV16, 2.5, 3.0),
    Target(Q90, FFCV16, 3.0, 3.0),
    Target(F32, TF, 2.6, 3.0),
    Target(F32, TORCHVISION, 5.5, 7.0),
    Target(f"{F32}, {RAND_AUGMENT}", f"{TORCHVISION}, {RAND_AUGMENT}", 4.5, 6.0),
    Target(f"{F32}, {RAND_AUGMENT}", f"{DALI}, {RAND_AUGMENT}", 3.0, 3.0),
    Target(f"{F32}, {SIMCLR}", f"{TORCHVISION}, {SIMCLR}", 6.0, 6.0),
    Target(f"{F32}, {MIXED}", f"{F32}, {UNMIXED}", 0.95, 1.0),
    Target(f"{F32}, {RAND_AUGMENT}, {MIXED}", f"{F32}, {RAND_AUGMENT}, {UNMIXED}", 0.95, 1.0),
)

# AUTOTUNE needs a few seconds to find its settings.
_TUNING = 24

HEADLINE = (
    Row(TORCHVISION, "headline", "torchvision"),
    Row(DALI, "headline", "dali"),
    Row(TF, "headline", "tensorflow", "tfrecord", warm_up=_TUNING),
    Row("FFCV, float32, its q90 file", "headline", "ffcv", "beton"),
    Row(FFCV16, "headline", "ffcv", "beton", dtype="float16"),
    Row(F32, "headline", "headrace", "packed"),
    Row(F16, "headline", "headrace", "packed", dtype="float16", kernel="bare kernel, float16"),
    Row(Q90, "headline", "headrace", "packed q90", dtype="float16",
        kernel="bare kernel, q90 bytes"),
    Row("bare kernel", "headline", "kernel"),
    Row("bare kernel, float16", "headline", "kernel", dtype="float16"),
    Row("bare kernel, q90 bytes", "headline", "kernel", "q90 folder", dtype="float16"),
)  # fmt: skip

FORMS = (
    Row("torchvision.io + transforms.v2", "forms", "torchvision", variant="io"),
    Row("SPDL, uint8", "forms", "spdl", dtype="uint8", kernel="bare kernel, uint8"),
    Row(F32, "forms", "headrace", "packed"),
    Row("Headrace, packed without seek points", "forms", "headrace", "packed no seek",
        kernel="bare kernel, no seek points"),
    Row("Headrace, image folder in place", "forms", "headrace"),
    Row("Headrace, indexed folder in place", "forms", "headrace", "indexed"),
    Row("Headrace, uint8", "forms", "headrace", "packed", dtype="uint8",
        kernel="bare kernel, uint8"),
    Row("Headrace, float32, FFCV's q90 bytes", "forms", "headrace", "packed q90",
        kernel="bare kernel, q90 bytes, float32"),
    Row('Headrace, mode="fast"', "forms", "headrace", "packed", mode="fast"),
    Row("Headrace, one thread", "forms", "headrace", "packed", threads=1,
        kernel="bare kernel, one thread"),
    Row("bare kernel", "forms", "kernel"),
    Row("bare kernel, no seek points", "forms", "kernel", variant="no seek"),
    Row("bare kernel, q90 bytes, float32", "forms", "kernel", "q90 folder"),
    Row("bare kernel, uint8", "forms", "kernel", dtype="uint8"),
    Row("bare kernel, one thread", "forms", "kernel", threads=1),
)  # fmt: skip

EVALUATION = tuple(
    Row(f"{name}, evaluation", "evaluation", peer, form, task="eval", dtype=dtype, warm_up=warm_up,
        kernel="bare kernel, evaluation")
    for name, peer, form, dtype, warm_up in (
        ("torchvision DataLoader", "torchvision", "folder", "float32", 8),
        ("DALI", "dali", "folder", "float32", 8),
        ("tf.data", "tensorflow", "tfrecord", "float32", _TUNING),
        ("FFCV, float16, its q90 file", "ffcv", "beton", "float16", 8),
        ("Headrace", "headrace", "packed", "float32", 8),
        ("bare kernel", "kernel", "folder", "float32", 8),
    )
)  # fmt: skip

RAW = (
    Row("FFCV, float16, raw 256", "raw", "ffcv", "beton raw", dtype="float16", variant="raw"),
    Row("Headrace, float16, raw 256", "raw", "headrace", "packed raw", dtype="float16"),
)

LARGE = tuple(
    Row(f"{name}, 3840x2160", "large", peer, form, "3840x2160", batch_size=32, warm_up=4, mode=mode,
        kernel="bare kernel, 3840x2160")
    for name, peer, form, mode in (
        ("torchvision DataLoader", "torchvision", "folder", "exact"),
        ("DALI", "dali", "folder", "exact"),
        ("tf.data", "tensorflow", "tfrecord", "exact"),
        ("Headrace", "headrace", "packed", "exact"),
        ('Headrace, mode="fast"', "headrace", "packed", "fast"),
        ("bare kernel", "kernel", "folder", "exact"),
    )
)  # fmt: skip

SMALL = tuple(
    Row(f"{name}, 64x64", "small", peer, form, "64x64", size=64, warm_up=24, dtype=dtype,
        kernel="bare kernel, 64x64")
    for name, peer, form, dtype in (
        ("torchvision DataLoader", "torchvision", "folder", "float32"),
        ("DALI", "dali", "folder", "float32"),
        ("tf.data", "tensorflow", "tfrecord", "float32"),
        ("FFCV, float16, its q90 file", "ffcv", "beton", "float16"),
        ("Headrace", "headrace", "packed", "float32"),
        ("bare kernel", "kernel", "folder", "float32"),
    )
)  # fmt: skip

# Recipes of augmentation. The bare kernel is not measured for all; rows without it lack that
# column.
RECIPES = {
    task: tuple(
        Row(f"{peer}, {recipe}", task, module, form, task=task, warm_up=4, kernel="")
        for peer, module, form in (
            (TORCHVISION, "torchvision", "folder"),
            (DALI, "dali", "folder"),
            (F32, "headrace", "packed"),
        )
        if (task, module) != ("simclr", "dali")
    )
    for task, recipe in (("randaugment", RAND_AUGMENT), ("simclr", SIMCLR))
}
# What mixing costs: the same rows without it stand beside them.
RECIPES["mixup"] = tuple(
    Row(f"{name}, {how}", "mixup", "headrace", "packed", task=task + suffix, warm_up=4, kernel="")
    for name, task in ((F32, "train"), (f"{F32}, {RAND_AUGMENT}", "randaugment"))
    for how, suffix in ((UNMIXED, ""), (MIXED, "+mix"))
)

# Datasets with their own code. Samples are counted, not views.
PROGRAMS = {
    "csv": "csv dataset",
    "two views": "two views of SimCLR",
    "ten views": "DINO's 2 + 8 views",
    "arrays": "arrays as CIFAR's",
    "tensors": "tensors first, of torchvision's v2",
}
PROGRAMS_AT_LEAST = {"csv": 4.0, "two views": 10.0, "ten views": 5.0, "arrays": 4.0, "tensors": 5.0}
LEARNED_AT_LEAST = {"csv": 5.0, "tensors": 5.0}  # with the seek points of earlier epochs
WITH_TRANSFORM, SLOW_END = "Hugging Face with_transform", "Compose with a slow end in Python"
OWN_CODE = (
    Row("csv dataset as ImageFolder, Headrace", "programs", "programs", task="csv",
        variant="folder", kernel=""),
    *(
        Row(f"{what}, {name}", "programs", "programs", task=task, variant=variant, kernel="",
            size=32 if task == "arrays" else 224, batch_size=32 if "views" in task else 128)
        for task, what in PROGRAMS.items()
        for name, variant in (("torch's DataLoader", "torch"), ("Headrace", "headrace"))
    ),
    # Files that are read repeatedly, with the seek points that are learned by default.
    *(
        Row(f"{PROGRAMS[task]}, Headrace, learned", "programs", "programs", task=task,
            variant="headrace", cache="own", warm_up=48, kernel="")
        for task in LEARNED_AT_LEAST
    ),
    *(
        Row(f"{WITH_TRANSFORM}, {name}", "programs", "huggingface", "arrow", variant=variant,
            kernel="")
        for name, variant in (("torch's DataLoader", ""), ("Headrace", "headrace"))
    ),
    Row(f"{WITH_TRANSFORM}, Headrace, learned", "programs", "huggingface", "arrow",
        variant="headrace", cache="own", warm_up=48, kernel=""),
    # The last transform is the program's own Python: in the process that iterates, or in worker
    # processes.
    *(
        Row(f"{SLOW_END}, {name}", "programs", "programs", task="slow end", variant=variant,
            batch_size=32, kernel="")
        for name, variant in (
            ("torch's DataLoader", "torch"),
            ("Headrace, no workers", "headrace"),
            ("Headrace, workers", "headrace workers"),
        )
    ),
)  # fmt: skip
TARGETS += (
    *(
        Target(
            f"{PROGRAMS[task]}, Headrace, learned",
            f"{PROGRAMS[task]}, torch's DataLoader",
            at_least,
            10.0,
        )
        for task, at_least in LEARNED_AT_LEAST.items()
    ),
    *(
        Target(f"{WITH_TRANSFORM}, {how}", f"{WITH_TRANSFORM}, torch's DataLoader", 4.0, 10.0)
        for how in ("Headrace", "Headrace, learned")
    ),
    Target("csv dataset, Headrace", "csv dataset as ImageFolder, Headrace", 0.9, 1.0),
    *(
        Target(f"{what}, Headrace", f"{what}, torch's DataLoader", PROGRAMS_AT_LEAST[task], 10.0)
        for task, what in PROGRAMS.items()
    ),
)
# An ImageFolder with the changed line. Each epoch is a first one if the folder has another name in
# each. Before the later ones are measured, two epochs, of 192 batches or fewer, are skipped. The
# same files packed stand beside them.
LEARNED = (
    Row("ImageFolder, torch's DataLoader", "learned", "programs", variant="folder torch",
        kernel=""),
    *(
        Row(f"ImageFolder, {what}, Headrace", "learned", "programs", variant=variant, cache=cache,
            warm_up=warm_up, kernel="")
        for what, variant, cache, warm_up in (
            ("no cache", "first", "off", 8),
            ("first epochs", "first", "own", 8),
            ("second epochs", "second", "own", 8),
            ("later epochs", "later", "own", 2 * 192 + 8),
        )
    ),
    Row("ImageFolder, packed, Headrace", "learned", "headrace", "packed", kernel=""),
)  # fmt: skip
TARGETS += (
    Target("ImageFolder, first epochs, Headrace", "ImageFolder, no cache, Headrace", 0.9, 1.0),
    *(
        Target(f"ImageFolder, {which} epochs, Headrace", "ImageFolder, packed, Headrace", 0.95, 1.0)
        for which in ("second", "later")
    ),
    Target("ImageFolder, first epochs, Headrace", "ImageFolder, torch's DataLoader", 4.0, 10.0),
    Target("ImageFolder, later epochs, Headrace", "ImageFolder, torch's DataLoader", 6.0, 10.0),
)


# Containers that are indexed in place, and their own loaders. Compressed ones hold the set several
# times (protocol.COPIES).
OWN_SHARDS = "Headrace, its own shards"
IN_PLACE = (
    *("webdataset", "tfrecord", "recordio", "mds", "lmdb", "arrow", "parquet", "zip", "litdata"),
)
# FFCV's JPEGs are its own, of quality 90, so they are compared with shards of the same files.
OWN_Q90 = "Headrace, its own shards of FFCV's q90 files"
BETON = "Headrace, beton in place, FFCV's q90 file"
LOADERS = {
    "webdataset": ("WebDataset's WebLoader", "webdataset", 8.0),
    "arrow": ("Hugging Face datasets, torch's DataLoader", "huggingface", 5.0),
    "mds": ("MosaicML's StreamingDataset", "mosaic", 5.0),
    "litdata": ("LitData's StreamingDataLoader", "litdata", 5.0),
}
IN_BLOCKS = ("snappy parquet", "zstd litdata")
CONTAINERS = (
    Row(OWN_SHARDS, "containers", "headrace", "packed", kernel=""),
    *(
        Row(f"Headrace, {form} in place", "containers", "headrace", f"index of {form}", kernel="")
        for form in IN_PLACE
    ),
    Row(OWN_Q90, "containers", "headrace", "packed q90", kernel=""),
    Row(BETON, "containers", "headrace", "index of beton", kernel=""),
    *(
        Row(f"Headrace, {form}, {how}", "containers", "headrace", f"index of {form}", kernel="",
            variant=variant, warm_up=24 if variant else 2)
        for form in IN_BLOCKS
        for how, variant in (("windows", "window"), ("full shuffle", ""))
    ),
    *(
        Row(name, "containers", peer, form, kernel="")
        for form, (name, peer, _) in LOADERS.items()
    ),
)  # fmt: skip
TARGETS += (
    *(Target(f"Headrace, {form} in place", OWN_SHARDS, 0.95, 1.0) for form in IN_PLACE),
    Target(BETON, OWN_Q90, 0.95, 1.0),
    *(Target(f"Headrace, {form}, windows", OWN_SHARDS, 0.6, 1.0) for form in IN_BLOCKS),
    *(
        Target(f"Headrace, {form} in place", name, at_least, 10.0)
        for form, (name, _, at_least) in LOADERS.items()
    ),
)


def _sweep() -> Iterator[Row]:
    for size in SIZES:
        for coding in CODINGS:
            images = f"{size or 'original'} {coding}"
            for name, peer, form in (
                ("torchvision", "torchvision", "folder"),
                ("DALI", "dali", "folder"),
                ("Headrace", "headrace", "packed"),
            ):
                yield Row(f"{name}, {images}", "sweep", peer, form, images, scales=SCALES)


SWEEP = tuple(_sweep())
GROUPS = {
    "headline": HEADLINE,
    "forms": FORMS,
    "evaluation": EVALUATION,
    "raw": RAW,
    "large": LARGE,
    "small": SMALL,
    **RECIPES,
    "programs": OWN_CODE,
    "learned": LEARNED,
    "containers": CONTAINERS,
    "sweep": SWEEP,
}
