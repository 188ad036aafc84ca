"""How an answer is held against what is right, and how sure a share of right answers is. Pure."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Collection, Sequence

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation + "‘’“”´`")
RESAMPLES = 2000


def normalised(text: str) -> str:
    """Lower case, without punctuation and articles, single spaces: as in SQuAD (arXiv 1606.05250, section 6.1)."""
    return " ".join(_ARTICLES.sub(" ", text.casefold().translate(_PUNCTUATION)).split())


def contained(answers: Collection[str], reply: str) -> bool:
    """Whether any of the answers stands in a reply, normalised; as in lost-in-the-middle (arXiv 2307.03172)."""
    said = normalised(reply)
    return any(wanted in said for wanted in map(normalised, answers) if wanted)


def rouge_l(wanted: str, said: str) -> float:
    """ROUGE-L recall: the share of the wanted words that stand in the text in the same order, others between them."""
    words, found = normalised(wanted).split(), normalised(said).split()
    row = [0] * (len(found) + 1)
    for word in words:
        last = 0
        for n, other in enumerate(found, 1):
            last, row[n] = row[n], last + 1 if word == other else max(row[n], row[n - 1])
    return row[-1] / len(words) if words else 0.0


def interval(values: Sequence[float], seed: int = 0, share: float = 0.95) -> tuple[float, float]:
    """Where the mean lies with this probability, by the percentiles of seeded bootstrap samples; (0, 0) of nothing."""
    if not values:
        return 0.0, 0.0
    dice, count = random.Random(seed), len(values)
    means = sorted(sum(dice.choices(values, k=count)) / count for _ in range(RESAMPLES))
    tail = (1 - share) / 2
    return means[int(tail * RESAMPLES)], means[min(RESAMPLES - 1, int((1 - tail) * RESAMPLES))]


def mean(values: Collection[float]) -> float:
    """The mean; 0 of nothing."""
    return sum(values) / len(values) if values else 0.0
