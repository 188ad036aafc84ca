"""Which functions are offered in a step: what cannot help is taken out of the grammar before the model speaks.

A small model that may do anything greets where it should save, searches for what it was just told, and stores a guess
when it is asked. Code can see from the message alone whether something is asked or told, and from memory whether what
was told is there yet. The rules are about languages in general; none knows a topic.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise

from memory_fs.analysis import tokens, unspaced
from memory_fs.english import root, without_s

SEARCHES = ("archival_memory_search", "conversation_search", "conversation_search_date", "read")
WRITES = ("core_memory_append", "core_memory_replace", "archival_memory_insert")
JUDGED = 8  # lines of memory that one message is held against
SHORT = 10  # weighty words of a message of which every fact is saved at once
LONG = 400  # a message longer than this may become a note, characters
_CLAUSE = re.compile(r"[^，,；;、。！!.\s][^，,；;。！!]*")
_BACK = re.compile("名?叫|[它他她其这那]|而|但|并|就|因为|所以")  # of a clause: about what was named before
_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？\n]*")
_TITLES = r"\b[A-Z]", *(rf"\b{title}" for title in "Mr Mrs Ms Dr St Prof Hr Fr Sr Sra Mme".split())
_STOP = re.compile(r"(?<=\w\.)" + "".join(rf"(?<!{title}\.)" for title in _TITLES) + r" +(?=\w)")
_MARK = re.compile(r"[?？؟]")
_ASKING = frozenset(
    """what who whom whose where when why which how do does did is are was were can could will would should
    wer was wo wann warum wie welche quién qué dónde cuándo cómo cuál
    qui où quand comment pourquoi quel quelle""".split()
)
_CLAUSES = frozenset("what who where when why how wo wann was wie qué cuándo dónde où quand".split())
_ASKING_END = re.compile(r"[吗呢么嘛か까][。.!！~～]*\s*\Z")
_SELF = frozenset(
    """i my me mine myself we our us ich mein meine mir mich wir unser unsere yo mi mis soy tengo vivo nos
    je mon ma mes moi nous notre eu meu minha io mio mia""".split()
)
_SELF_SIGN = re.compile(r"[我咱俺私僕]|저는|제가|나는|내가")
_THIN = frozenset(
    """the a an and or but so that this these those it its is are was were be been am to of in on at for from with by
    as just now not no yes have has had do does did will would can could should about very really also too there here
    you your they them their he she his her what which who when where how all some any more most than then""".split()
)

_BARE = frozenset("a an the i my me we our am is are has have yes 我 咱 俺 私 僕 的 是".split())


def asks(text: str) -> bool:
    """Whether a message asks something: a question mark, a question word in front, a question particle at the end."""
    return any(_is_question(sentence) for sentence in _SENTENCE.findall(text))


def stated(text: str) -> str:
    """The sentences of a message that ask nothing."""
    return " ".join(sentence for sentence in _SENTENCE.findall(text) if not _is_question(sentence))


def sentences(text: str) -> list[str]:
    """The sentences of a text, without what stands around them."""
    return [sentence.strip() for sentence in _SENTENCE.findall(text) if sentence.strip()]


def one_a_line(text: str) -> list[str]:
    """The statements of a text that a model wrote, each to be a line of its own: only lines can be replaced alone."""
    return _STOP.sub("\n", text).split("\n")


def facts(text: str) -> list[str]:
    """What somebody tells in a script without spaces, one fact a line, in their own words; [] for other scripts.

    A small model rewords Chinese badly: it drops names. A comma there parts what are sentences elsewhere, and what
    refers back stays with what it refers to.
    """
    found: list[str] = []
    for sentence in sentences(stated(text)) if len(text) < LONG else ():
        if tells(sentence) or (found and len(topic(sentence)) > 1):
            for number, clause in enumerate(_CLAUSE.findall(sentence)):
                back = number > 0 and found and _BACK.match(clause)
                found = [*found[:-1], f"{found[-1]}，{clause}"] if back else [*found, clause]
    return found if found and all(unspaced(fact[0]) for fact in found) else []


def says(text: str, line: str) -> bool:
    """Whether a text states each sentence of a line, in the same words and the same order.

    What only carries a sentence (`I`, `is`, `a`) does not count; what denies it, another tense and any other word do.
    """
    said = [_bare(sentence) for sentence in sentences(stated(text))]
    wanted = [bare for sentence in sentences(line) if (bare := _bare(sentence))]
    return bool(wanted) and all(bare in said for bare in wanted)


def _bare(sentence: str) -> list[str]:
    return [without_s(word) if len(word) > 3 else word for word in tokens(sentence) if word not in _BARE]


def tells(text: str) -> bool:
    """Whether a message says something about the person who wrote it."""
    said = stated(text)
    return bool(_SELF_SIGN.search(said) or _SELF & set(tokens(said)))


def _is_question(sentence: str) -> bool:
    words = tokens(sentence)
    if _MARK.search(sentence) or _ASKING_END.search(sentence.strip()):
        return True
    clause = len(words) > 1 and words[0] in _CLAUSES and words[1] in _SELF  # When I was young ...
    return bool(words) and words[0] in _ASKING and not clause


def is_news(text: str, memory: str) -> bool:
    """Whether most of what a message states is not in a memory text yet."""
    return _covered(stated(text), memory) < 0.6


def _covered(text: str, memory: str) -> float:
    """The share of a text's weighty tokens that are in a memory text; 1 where it has none."""
    said = topic(text)
    return len(said & topic(memory)) / len(said) if said else 1.0


def topic(text: str) -> set[str]:
    """What a text is about: the roots of words that carry meaning; of scripts without spaces, pairs of characters."""
    found = tokens(text)
    spaced = {root(t) for t in found if len(t) > 2 and t not in _THIN and t not in _SELF}
    signs = [t if len(t) == 1 and ord(t) > 0x2E80 else "" for t in found]
    return spaced | {a + b for a, b in pairwise(signs) if a and b}


def judges(text: str) -> bool:
    """Whether a message may make something that is in memory untrue: it states, and has something to state."""
    return tells(text) or len(topic(stated(text))) > 1


def offered(
    names: Collection[str],
    message: str,
    memory: str,
    first: bool,
    must_save: bool,
    answerable: bool = False,
    warned: bool = False,
) -> list[str]:
    """The functions of this step.

    Args:
        names: those that could be called.
        message: what the person said.
        memory: the text of core memory.
        first: whether nothing has been called in this turn yet.
        must_save: whether news has to be saved before it is answered: core memory has room, and it was not tried often.
            Of a long message the first saved fact will do: what else it says stays in recall.
        answerable: whether what the message asks for has been brought into context.
        warned: whether the model was asked in this turn to save what will leave the context.
    """
    useless: set[str] = set()
    # A person's own functions stay on offer: what they are good for is not known here.
    answer = [name for name in names if name not in (*SEARCHES, *WRITES)]
    if tells(message):
        news = must_save and is_news(message, memory) and (first or len(topic(message)) <= SHORT)
        if not first and not news and "send_message" in names:
            return answer  # it is saved: all that is left is to answer
        useless |= set(SEARCHES)
        if len(message) < LONG:
            useless.add("archival_memory_insert")
        if news:
            useless.add("send_message")
    elif first and asks(message) and "send_message" in names and (answerable or _covered(message, memory) >= 0.8):
        return answer  # all that the question names is in front of the model: nothing to search for
    if message and not judges(message) and not warned:
        # Who only asks or greets told nothing to save; what a text that was found says is no order.
        useless |= set(WRITES)
    left = [name for name in names if name not in useless]
    return left if any(name in WRITES or name == "send_message" for name in left) else list(names)


def worth_judging(lines: list[str], message: str) -> list[str]:
    """The lines of memory that a message is held against: all when few, else those that share words, then the newest.

    Args:
        lines: of core memory, oldest first.
        message: what the person said.
    """
    said = topic(message)
    ranked = sorted(range(len(lines)), key=lambda n: (len(said & topic(lines[n])), n), reverse=True)
    return [lines[n] for n in sorted(ranked[:JUDGED])]
