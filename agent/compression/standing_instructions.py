"""Finds what a person wants to hold from now on: "never deploy on Friday", "answer in German".

No model is asked. Sentences are taken word for word when they carry one of the phrases below. `LASTING` phrases speak
of the future as such; `WISHES` may belong to one task only and make way first when space is short.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

MAX_CHARACTERS = 320
"""A longer sentence is cut, visibly. Pasted text has no sentences."""
_MAX_LISTED = 8
"""Lines taken from a list under "from now on:"."""


def _listed(*lines: str) -> tuple[str, ...]:
    return tuple(phrase for line in lines for phrase in line.split(", "))


LASTING = _listed(
    # English
    "always, never, from now on, going forward, in future, in the future, every time, each time, whenever",
    "at all times, under no circumstances, no matter what, until further notice, keep in mind",
    "remember that, remember to, please remember, don't forget, do not forget, make sure",
    "must not, mustn't, don't ever, do not ever, only ever, as a rule, without asking, ask me before",
    "ask before, answer in, reply in, respond in, write in, speak to me, call me, address me",
    # German
    "immer, nie, niemals, ab jetzt, ab sofort, von nun an, künftig, zukünftig, in zukunft, stets",
    "jedes mal, jedesmal, merk dir, merke dir, merken sie sich, denk daran, denk dran, vergiss nicht",
    "auf keinen fall, grundsätzlich, sprich, antworte auf, antworte mir, antworten sie, duze, sieze",
    "nenn mich, nenne mich, frag mich vorher, frag vorher",
    # Spanish, Portuguese, Italian
    "siempre, nunca, jamás, a partir de ahora, de ahora en adelante, en adelante, en el futuro, recuerda",
    "recuerde, ten en cuenta, no olvides, cada vez, bajo ninguna circunstancia, responde en, responda en",
    "contesta en, háblame, llámame, asegúrate, sempre, a partir de agora, de agora em diante, lembre-se",
    "responda em, d'ora in poi, mai, ricorda, rispondi in, chiamami",
    # French
    "toujours, jamais, désormais, dorénavant, à partir de maintenant, à l'avenir, chaque fois",
    "n'oublie pas, n'oubliez pas, souviens-toi, rappelle-toi, en aucun cas, réponds en, répondez en",
    "réponds-moi, appelle-moi, appelez-moi, tutoie, vouvoie, assure-toi",
    # Russian
    "всегда, никогда, отныне, с этого момента, впредь, запомни, запомните, отвечай, обязательно",
)
WISHES = _listed(
    "prefer, rather not, don't, do not, avoid, only, must, has to be, have to be, no more than, at most",
    "at least, my budget, allergic, vegetarian, vegan, instead of, without, please use, stick to, bitte keine",
    "bitte nicht, bitte nur, verwende, benutze, lieber, höchstens, mindestens, muss, prefiero, evita",
    "no uses, solo, sólo, como máximo, al menos, debe, por favor usa, prefiro, je préfère, évite, évitez",
    "n'utilise pas, utilise, seulement, au plus, au moins, il faut, только, не надо, предпочитаю, нельзя",
)
# Scripts without spaces between words: found anywhere in a sentence.
LASTING_ANYWHERE = _listed(
    # Chinese
    "始终, 总是, 永远, 从现在起, 从现在开始, 从今以后, 以后, 今后, 记住, 务必, 必须, 不要, 绝不, 绝对不",
    "千万, 请用, 用中文, 用英文, 每次, 禁止, 一律, 别再, 称呼我, 叫我, 始終, 總是, 永遠, 從現在起",
    "從現在開始, 以後, 今後, 記住, 務必, 必須, 絕不, 千萬, 請用, 別再",
    # Japanese
    "常に, いつも, 必ず, 絶対, 決して, これから, 以降, 覚えて, 忘れないで, しないで, ないでください, 毎回",
    "ようにして, で答えて, で返事, で書いて, と呼んで, いけません, だめ",
    # Korean
    "항상, 절대, 앞으로, 반드시, 하지 마, 기억해, 매번, 로 대답, 라고 불러",
)
WISHES_ANYWHERE = _listed("最好, 喜欢, 喜歡, 不想, 最多, 至少, 预算, 預算, がいい, だけ, 予算, 싶지 않, 최대")


_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_COMMON = frozenset(_listed("please, from, make, have, time, every, each, must, that, sure, what, with"))


def _by_telling_word(phrases: Iterable[str]) -> dict[str, list[str]]:
    """Each phrase under its least common word, between spaces: most messages have none of these words."""
    table: dict[str, list[str]] = {}
    for phrase in phrases:
        words = _WORD.findall(phrase)
        telling = max(words, key=lambda word: (word not in _COMMON, len(word)))
        table.setdefault(telling, []).append(f" {' '.join(words)} ")
    return table


_LASTING = _by_telling_word(LASTING)
_ANY = _by_telling_word((*LASTING, *WISHES))
_ANYWHERE = (*LASTING_ANYWHERE, *WISHES_ANYWHERE)
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Kana, Han characters, Hangul."""
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？")
_LIST_ITEM = re.compile(r"\s*(?:[-*•·]|\d{1,2}[.)])\s*\S")


def is_lasting(instruction: str) -> bool:
    return _holds_one(instruction, _LASTING, LASTING_ANYWHERE)


def telling_words(vocabulary: Iterable[str]) -> frozenset[str]:
    """The words without which a message holds no instruction: they spare a look at most messages."""
    words = list(vocabulary)
    joined = "\n".join(words)
    if _ANY.keys().isdisjoint(_WORD.findall(_plain(joined))) and not _WITHOUT_SPACES.search(joined):
        return frozenset()
    return frozenset(
        word
        for word in words
        if not _ANY.keys().isdisjoint(_WORD.findall(_plain(word))) or _WITHOUT_SPACES.search(word)
    )


def find_instructions(text: str) -> list[str]:
    """The sentences of a person's message that are meant to hold, in order, word for word."""
    found: list[str] = []
    lines = text.splitlines()
    listed_until = 0
    for index, line in enumerate(lines):
        if index < listed_until or not _instructs(line):
            continue
        for sentence in filter(_instructs, _sentences(line)):
            listed = _list_under(lines, index) if sentence.endswith((":", "：")) else []
            listed_until = index + 1 + len(listed)
            found.append(_one_line(" ".join((sentence, *listed))))
    return found


def _instructs(text: str) -> bool:
    return _holds_one(text, _ANY, _ANYWHERE)


def _holds_one(text: str, phrases: dict[str, list[str]], anywhere: Iterable[str]) -> bool:
    words = _WORD.findall(_plain(text))
    if telling := [word for word in words if word in phrases]:
        plain = f" {' '.join(words)} "
        if any(phrase in plain for word in telling for phrase in phrases[word]):
            return True
    return _WITHOUT_SPACES.search(text) is not None and any(phrase in text for phrase in anywhere)


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")


def _sentences(line: str) -> list[str]:
    for end in _SENTENCE_ENDS:
        line = line.replace(end, f"{end}\n")
    return [sentence.strip() for sentence in line.split("\n")]


def _list_under(lines: Sequence[str], index: int) -> list[str]:
    following = lines[index + 1 : index + 1 + _MAX_LISTED]
    return list(takewhile(lambda line: _LIST_ITEM.match(line) is not None, following))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 2] + " …"
