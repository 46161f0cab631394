"""Several images of each sample, as for SimCLR and DINO."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headrace._engine import arguments

MOST = 32  # images of a sample


class Views:
    """Several views of each sample; every batch has one tensor for each view.

    The file is read, checked and parsed once, and parts that views have in common are decoded once.
    Each view has its own draws; those of the first view are the ones that its list would have
    alone.

        Views([RandomResizedCrop(224), ...], repeat=2)              # SimCLR: two views of a recipe
        Views(global_1, global_2, local, repeat=(1, 1, 6))          # DINO: multi-crop
        Views(teacher=[...], student=[...], repeat={"student": 6})  # by name

    The images of a batch are then a list of tensors in this order, with repeated views next to each
    other, as torch's ``default_collate`` makes them if a dataset returns a list. With names they
    are a dict with one tensor for each name, or a list of tensors if the view is repeated.

    Args:
        views: lists of ``headrace.transforms``. All images of one list must have the same size;
            different lists may have different sizes.
        repeat: how many views each list makes: one number for all lists, or one for each list. For
            views with names it is a dict by name, and the default is 1.
        named: views by name, instead of ``views``.

    Raises:
        ArgumentError: there is no view, there are more than 32 images of a sample, or ``repeat``
            does not fit the views.
    """

    def __init__(
        self,
        *views: Sequence[Any],
        repeat: int | Sequence[int] | Mapping[str, int] = 1,
        **named: Sequence[Any],
    ) -> None:
        if bool(views) == bool(named):
            raise arguments.refuse("views", views, "one view or more, by place or by name")
        self.names = tuple(named)
        recipes = named or {f"views[{place}]": view for place, view in enumerate(views)}
        self._steps = [arguments.transforms(name, steps) for name, steps in recipes.items()]
        self.repeats = self._repeats(repeat)
        if len(self) > MOST:
            raise arguments.refuse("repeat", repeat, f"at most {MOST} images of a sample")

    def _repeats(self, repeat: Any) -> tuple[int, ...]:
        count = len(self._steps)
        if hasattr(repeat, "__index__"):
            return (arguments.count("repeat", repeat, 1, MOST),) * count
        if isinstance(repeat, Mapping):
            unknown = [name for name in repeat if name not in self.names]
            if unknown:
                raise arguments.refuse("a key of repeat", unknown[0], "the name of a view")
            repeat = [repeat.get(name, 1) for name in self.names]
        found = arguments.each(
            "repeat", repeat, lambda name, times: arguments.count(name, times, 1, MOST)
        )
        if len(found) != count:
            raise arguments.refuse("repeat", repeat, f"a number for each of {count} views")
        return tuple(found)

    def __len__(self) -> int:
        """Images of a sample."""
        return sum(self.repeats)

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        """The list of transforms of each image, as dicts."""
        for steps, times in zip(self._steps, self.repeats, strict=True):
            for _ in range(times):
                yield steps

    def to_list(self) -> list[dict[str, Any]]:
        """The views as the engine reads them."""
        return [
            {"transform": steps, "repeat": times}
            for steps, times in zip(self._steps, self.repeats, strict=True)
        ]

    def arrange(self, images: list[Any]) -> Any:
        """Arranges one object for each view as the loader arranges its tensors: list or dict."""
        if not self.names:
            return images
        rest, found = iter(images), {}
        for name, times in zip(self.names, self.repeats, strict=True):
            of_name = [next(rest) for _ in range(times)]
            found[name] = of_name[0] if times == 1 else of_name
        return found

    def __repr__(self) -> str:
        what = ", ".join(self.names) or f"{len(self._steps)} lists"
        return f"Views({what}, repeat={self.repeats})"
