"""Data for scripts by others, made by formulas."""

from __future__ import annotations

import array
import math
from collections.abc import Callable
from pathlib import Path

_SYLLABLES = ("ka", "lo", "mi", "ten", "ru", "vas", "e", "nor", "si", "bul", "ya", "dem")


def make_names(folder: Path) -> None:
    """Write six files of 200 names each, as if of six languages."""
    names = folder / "names"
    names.mkdir()
    for language in range(6):
        lines = [_name(number * (language + 5) + language) for number in range(200)]
        (names / f"Language{language}.txt").write_text("\n".join(lines) + "\n")


def _name(number: int) -> str:
    parts = [_SYLLABLES[(number // 7**place + place) % len(_SYLLABLES)] for place in range(3)]
    return "".join(parts).capitalize()


def make_series(folder: Path) -> None:
    """Write 3,000 hours of seven series that swing by day and by week."""
    made = folder / "made"
    made.mkdir()
    lines = ["date,A,B,C,D,E,F,OT"]
    for hour in range(3000):
        day, rest = divmod(hour, 24)
        month, of_month = divmod(day, 28)
        year, of_year = divmod(month, 12)
        values = [
            math.sin(hour * math.pi / 12 + one) + 0.3 * math.cos(hour * math.pi / 84 * (one + 1)) for one in range(7)
        ]
        date = f"{2020 + year}-{of_year + 1:02d}-{of_month + 1:02d} {rest:02d}:00:00"
        lines.append(",".join([date, *(f"{value:.4f}" for value in values)]))
    (made / "made.csv").write_text("\n".join(lines) + "\n")


def make_words(folder: Path) -> None:
    """Write 2,000 lines of nine words, of 200 kinds."""
    data = folder / "data"
    data.mkdir(exist_ok=True)
    lines = [" ".join(f"w{(line * 7 + place * place * 11) % 199}" for place in range(9)) for line in range(2000)]
    (data / "train.txt").write_text("\n".join(lines) + "\n")


def make_text(folder: Path) -> None:
    """Write a text of 40,000 characters, of made names."""
    (folder / "input.txt").write_text("\n".join(_name(number * 11) for number in range(5000))[:40_000])


def make_graph(folder: Path) -> None:
    """Write 1,600 papers of seven kinds with forty words each, and what they cite: neighbours on a ring."""
    cora = folder / "data" / "cora"
    kinds = [f"Kind{number}" for number in range(7)]
    papers = [(paper, [(paper * place + place) % 5 == 0 for place in range(1, 41)]) for paper in range(1600)]
    rows = ["\t".join([str(one), *(str(int(word)) for word in words), kinds[one % 7]]) for one, words in papers]
    (cora / "cora.content").write_text("\n".join(rows) + "\n")
    cites = [f"{paper}\t{(paper + step) % 1600}" for paper in range(1600) for step in (1, 7)]
    (cora / "cora.cites").write_text("\n".join(cites) + "\n")


def make_triples(folder: Path) -> None:
    """Write 3,000 facts of 300 entities by ten relations, and 40 more to validate on and to test with."""
    made = folder / "made"
    made.mkdir()
    for name, size in (("entities", 300), ("relations", 10)):
        lines = [f"{number}\t{name[0]}{number}" for number in range(size)]
        (made / f"{name}.dict").write_text("\n".join(lines) + "\n")
    for name, heads, shift in (("train", 300, 0), ("valid", 4, 1), ("test", 4, 2)):
        facts = [(head, kind) for head in range(heads) for kind in range(10)]
        lines = [f"e{head}\tr{kind}\te{(head * (kind + 2) + kind * 7 + shift) % 300}" for head, kind in facts]
        (made / f"{name}.txt").write_text("\n".join(lines) + "\n")


def make_tokens(folder: Path) -> None:
    """Write three files of 20,000 tokens each, of a vocabulary of 512."""
    tokens = folder / "data" / "tok512"
    tokens.mkdir(parents=True)
    for shard in range(3):
        made = array.array("H", ((number * number * (shard + 3) + number * 13) % 509 for number in range(20_000)))
        (tokens / f"data{shard}.bin").write_bytes(made.tobytes())


MADE: dict[str, Callable[[Path], None]] = {
    "names": make_names,
    "series": make_series,
    "words": make_words,
    "text": make_text,
    "graph": make_graph,
    "triples": make_triples,
    "tokens": make_tokens,
}
"""What `made` of a script names -> what makes it in the folder that the script is started in."""
