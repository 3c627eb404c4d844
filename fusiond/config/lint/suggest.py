"""`did you mean …`: the known name that is nearest to one that is not."""

from collections.abc import Iterable


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A remedy that names the nearest known word; empty if none is near."""
    import difflib  # here, since a file without mistakes does not need it

    names = [name for name in known if name != word]
    folded = {name.casefold(): name for name in names}
    # A name has a maximum length; a value in the place of a name may have any.
    near = difflib.get_close_matches(word.casefold()[:100], folded, n=1, cutoff=0.6)
    return f"did you mean {folded[near[0]]!r}?" if near else ""


def nearest(word: str, known: Iterable[str], label: str = "known") -> str:
    """A remedy that names the nearest known word; if none is near, all known words, behind the label."""
    names = list(known)
    return did_you_mean(word, names) or f"{label}: {listed(names) or 'none'}"


class Suggestions:
    """`did_you_mean` for the first hundred words: it is slow, and a hostile file has many thousands of mistakes."""

    def __init__(self, known: Iterable[str]) -> None:
        self._known, self._left = tuple(known), 100

    def __call__(self, word: str) -> str:
        """A remedy that names the nearest known word; empty if none is near, and after a hundred words."""
        self._left -= 1
        return did_you_mean(word, self._known) if self._left >= 0 else ""


def listed(known: Iterable[str], limit: int = 8) -> str:
    """The first of the known names, for a remedy: `a, b, c, …`."""
    names = sorted(known)
    return ", ".join(names[:limit]) + (", …" if len(names) > limit else "")
