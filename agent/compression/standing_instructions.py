# ruff: noqa: E501 - a pattern is easier to read in one piece
"""Finds standing instructions: "never deploy on Friday", "answer in German".

No model is asked. Sentences are taken word for word. A sentence counts if it

- speaks of the future as such (`LASTING`), and not of this time only (`THIS_TIME`);
- says always or never (`ADVERBS`) as an order, not as a report or in a question;
- tells a preference (`PREFERENCES`), or forbids something in general: "don't use emojis", not "don't delete the script";
- takes an earlier one back (`agent/compression/revocations.py`).

"Remember that." counts together with the statement before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import takewhile

from agent.compression.revocations import revocation_kind

MAX_CHARACTERS = 320
"""A longer sentence is cut, visibly. Pasted text has no sentences."""
_LOOKED_AT = 2 * MAX_CHARACTERS
"""No more of a sentence is looked at, so that the search stays linear."""
_MAX_LIST_LINES = 8


def _listed(*lines: str) -> tuple[str, ...]:
    return tuple(phrase for line in lines for phrase in line.split(", "))


LASTING = _listed(
    # English
    "from now on, from here on, from today on, from tomorrow on, from next week on, from next month on, starting today, starting now, going forward, in future, in the future",
    "at all times, under no circumstances, no matter what, until further notice, keep in mind that, bear in mind",
    "remember that, remember my, please remember, don't forget that, do not forget that, don't ever, do not ever",
    "only ever, as a rule, without asking me, without telling me, without showing me, without checking with me, whatever you do, ask me before, ask me first, ask before, check with me",
    "answer in, reply in, respond in, speak to me, address me, call me",
    # German
    "ab jetzt, ab sofort, ab heute, von nun an, künftig, zukünftig, in zukunft, bis auf weiteres, merk dir, merke dir",
    "merken sie sich, denk daran dass, vergiss nicht dass, auf keinen fall, grundsätzlich, sprich mich, sprich mit mir",
    "antworte auf, antworte mir auf, antworten sie, duze, sieze, nenn mich, nenne mich, frag mich vorher, frag vorher",
    # Spanish, Portuguese, Italian
    "a partir de ahora, de ahora en adelante, en adelante, en el futuro, recuerda que, recuerde que, ten en cuenta",
    "no olvides que, bajo ninguna circunstancia, responde en, responda en, contesta en, háblame, llámame",
    "a partir de agora, de agora em diante, daqui em diante, lembre-se, responda em, me chame, d'ora in poi",
    "da ora in poi, ricorda che, rispondi in, chiamami",
    # French
    "désormais, dorénavant, à partir de maintenant, à l'avenir, n'oublie pas que, n'oubliez pas que, souviens-toi",
    "rappelle-toi, en aucun cas, réponds en, répondez en, réponds-moi, appelle-moi, appelez-moi, tutoie, vouvoie",
    # Russian
    "отныне, с этого момента, впредь, запомни, запомните, отвечай, обязательно",
)
ADVERBS = _listed(
    "always, never, every time, each time, whenever, ever, immer, nie, niemals, stets, jedes mal, jedesmal",
    "siempre, nunca, jamás, cada vez, sempre, mai, toujours, jamais, chaque fois, всегда, никогда",
)
PREFERENCES = _listed(
    "my budget is, i'm allergic, am allergic, is allergic, are allergic, allergisch, prefiero, alérgico, alérgica",
    "prefiro, preferisco, je préfère, allergique, предпочитаю, аллергия",
)
THIS_TIME = _listed(
    "for now, this time, just once, this once, right now, yet, today, tonight, tomorrow, at the moment, for this",
    "in this case, diesmal, dieses mal, noch nicht, heute, morgen, gerade, für diese, für diesen, für dieses, todavía",
    "esta vez, hoy, mañana, por ahora, cette fois, aujourd'hui, demain, pour l'instant, pas encore, desta vez, hoje",
    "ainda não, questa volta, oggi, пока, сейчас, сегодня, завтра, на этот раз",
)
# Scripts without spaces between words: found anywhere in a sentence.
LASTING_ANYWHERE = _listed(
    "从现在起, 从现在开始, 从今以后, 以后, 今后, 记住, 务必, 一律, 称呼我, 叫我, 從現在起, 從現在開始, 以後, 今後",
    "記住, 務必, 用中文回答, 用英文回答, 请用中文, 请用英文, 請用中文, 請用英文",
    "これから, 以降, 覚えて, 忘れないで, と呼んで, で答えて, で返事, 앞으로, 기억해, 라고 불러, 로 대답",
)
ADVERBS_ANYWHERE = _listed(
    "始终, 总是, 永远, 每次, 绝不, 绝对不, 千万, 禁止, 始終, 總是, 永遠, 絕不, 千萬, 別再, 别再",
    "常に, いつも, 必ず, 絶対, 決して, 毎回, 항상, 절대, 반드시, 매번",
)
PREFERENCES_ANYWHERE = _listed(
    "过敏, 過敏, 吃素, 不吃, 喜欢, 喜歡, 我的预算, 我的預算, アレルギー, がいい, 私の予算, 알레르기, 싶지 않"
)
THIS_TIME_ANYWHERE = _listed(
    "这次, 這次, 先不要, 先别, 先別, 今天, 现在先, 暂时, 暫時, 今回, 今は, まだ, 今日, 이번, 지금은, 아직, 오늘"
)
_REPORTS_ANYWHERE = re.compile(
    "(?:他|她|它|他们|她们|我们|我|这|那|這)[^，。]{0,6}(?:总是|總是|始终|每次|永远)|为什么|為什麼|なぜ|どうして|왜"
)

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*")
_COMMON = frozenset(_listed("please, from, make, have, time, every, each, must, that, sure, what, with"))


def _by_telling_word(phrases: Iterable[str]) -> dict[str, list[str]]:
    """Index phrases by their least common word, which most messages do not have."""
    table: dict[str, list[str]] = {}
    for phrase in phrases:
        words = _WORD.findall(phrase)
        telling = max(words, key=lambda word: (word not in _COMMON, len(word)))
        table.setdefault(telling, []).append(f" {' '.join(words)} ")
    return table


_LASTING = _by_telling_word(LASTING)
_ADVERBS = _by_telling_word(ADVERBS)
_PREFERENCES = _by_telling_word(PREFERENCES)
_THIS_TIME = _by_telling_word(THIS_TIME)
_ANCHORS = frozenset(
    _listed(
        # Of general prohibitions, languages and pointers
        "don't, do, no, avoid, in, keine, kein, bitte, évite, évitez, evita, eviten, utilise, n'utilise, kept, mind",
        "remember, forget, note, merk, denk, vergiss, recuerda, souviens-toi, запомни",
        # Of rules for all of a kind
        "only, use, all, every, each, any, everything, keep, für, weekends, mondays, tuesdays, wednesdays, thursdays, fridays, saturdays, sundays",
        # Of diets
        "vegan, vegetarian, vegetarier, vegetarierin, veganer, veganerin, vegetariano, vegetariana, végétarien, végétarienne",
        # Of revocations
        "again, longer, anymore, more, drop, scrap, cancel, lift, lifted, ignore, disregard, revoke, undo, withdraw",
        "discard, never, back, changed, stop, need, off, now, dropped, removed, cancelled, canceled, scrapped, revoked, vergiss, void, wieder, mehr, aufgehoben, hinfällig, gestrichen",
        "rule, rules, instruction, instructions, restriction, restrictions, ban, bans, policy, policies, preference, preferences",
        "remove, all, vergesst, vergessen, lass, regel, regelung, anweisung, vorgabe, vorschrift, einschränkung, verbot",
        "nuovo, ancora, olvidate, olvída, esqueca",
        "erledigt, ignorier, ignoriere, streich, streiche, hör, ya, olvida, olvídate, esquece, esqueça, mais, dimentica",
        "più, oublie, oubliez, plus, nouveau, nuevo, vez, novo, novamente, volver, забудь, забудьте, больше, снова, опять",
    )
)
_CUES = frozenset((*_LASTING, *_ADVERBS, *_PREFERENCES, *_ANCHORS))
_WITHOUT_SPACES = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
"""Kana, Han characters, Hangul."""
_SENTENCE_ENDS = (". ", "! ", "? ", "。", "！", "？")
_ABBREVIATED = re.compile(
    r"(\b(?:[Dd]rs?|[Mm]rs?|[Mm]s|[Pp]rof|[Ss]t|Hr|Fr|[Nn]r|vs|approx|ca|e\.g|i\.e|z\.B)\. )\n"
)
_LIST_ITEM = re.compile(r"\s*(?:[-*•·]|\d{1,2}[.)])\s*\S")

_ONE_OFF = re.compile(
    r"\b(?:this|that|these|those|it|them|him|one|dies\w{0,2}|jene\w?|ihn|ese|esa|eso|este|esta|lo|cet|cette|ce|ces|это\w?)\b"
)
_IN_THIS_TEXT = re.compile(
    r"\b(?:in|throughout) (?:this|these|diese[mnr]|este|esta|ce|cet|cette|quest[oa]) (?:text|document|report|e-?mail|mail|letter|file|essay"
    r"|article|paragraph|chapter|section|table|slides?|presentation|draft|translation|message|post|task|dokument|bericht|brief|datei"
    r"|aufsatz|artikel|absatz|kapitel|abschnitt|tabelle|entwurf|nachricht|aufgabe|texto|documento|texte|testo)s?\b"
)
_AT_LEISURE = re.compile(
    r"\bwhenever you (?:have|get|find) (?:the |a |some )?(?:time|moment|minute|chance)\b"
    r"|\bwhenever you (?:can|like) (?:please )?(?:send|show|give|tell|mail|forward) me the\b"
)
_DEFINITE = re.compile(
    rf"{_ONE_OFF.pattern}|\b(?:the|here|now|again|den|die|das|dem|es|el|los|las|la|les|le)\b"
)
_IDIOM = r"(?:worry|bother|mind|know|think|forget|be|get|hurry|care|understand|panic|stop|wait|have|need|you|we|i|they)"
_GENERAL = re.compile(
    rf"^(?:(?:and|also|but|oh|ok|okay|so|then|please) )*(?:(?:don't|do not|avoid) (?!{_IDIOM}\b)\w+|no (?!worries|thanks)\w+s\b)"
    r"|\bbitte (?:\w+ )?kein(?:e|en)? \w+|^keine \w+|^(?:por favor )?(?:no \w+[ae]s|evita|eviten) \w+"
    r"|^(?:s'il te plaît |s'il vous plaît )?(?:n'utilise pas|n'utilisez pas|évite|évitez) \w+"
    r"|\bi (?:don't|do not|can't|cannot|never) (?:eat|drink|smoke|fly|drive|speak|take|use)\b"
    r"|(?:^|\b(?:and|but|so|as|because) )(?:i|we) (?:\w+ly |always |usually )?prefer\b"
    r"|\bich (?:esse|trinke|nehme|mag) kein"
    # Rules for all things of a kind
    r"|\b(?:in|on|with|for) (?:all|every|each|any) (?:of )?my\b|\b(?:in|for) everything you (?:write|send|do)\b"
    r"|^(?:please )?only (?:book|order|use|buy|suggest|recommend|speak|reserve|schedule)\b|\b(?:book|order|use|suggest) only \w+"
    r"|^(?:please )?use \w+ not \w+$|^(?:all|every) \w+(?: \w+)? (?:has to|have to|must|needs? to|should)\b"
    r"|^(?:please )?keep (?:your |all )?(?:answers?|repl(?:y|ies)|responses?|messages|tone)\b"
    r"|^(?:please )?(?:keep|leave|block|plan|schedule|book|send|avoid|no)\b(?: \w+){0,4} (?:weekends|(?:mon|tues|wednes|thurs|fri|satur|sun)days)\b"
    r"|\bfür mich (?:bitte )?nur\b|\bnur \w+ für mich\b"
)
_DIET = re.compile(
    r"\b(?:i'm|am|is|are|we're|he's|she's|bin|ist|sind|soy|suis|sou|sono) (?:an? |strictly |mostly )*"
    r"(?:vegan|vegetarian|vegetarier|vegetarierin|veganer|veganerin|vegetarian[oa]|végétarien|végétarienne)\b(?! \w+s\b)"
)
_GENERAL_ANYWHERE = re.compile("(?:不要|请勿|請勿)|ないで(?:ください)?|いけません|하지 마")
_DEFINITE_ANYWHERE = re.compile("这|那|它|該|该|這|この|その|あの|それ|これ|이 |그 |저 ")
_LANGUAGE = re.compile(
    r"\b(?:write|speak|talk|schreib|schreibe|sprich|rede)\b(?: \w+){0,3} (?:(?:in|auf) )?(?:(?:british|american) )?"
    r"(?:english|german|french|spanish|italian|portuguese|russian|chinese|japanese|korean|dutch|polish|turkish|arabic"
    r"|englisch|deutsch|französisch|spanisch|italienisch)\b"
)
_CALL_ME = re.compile(
    r"\bcall me (?:back|again|later|tomorrow|today|tonight|when|if|at|on|now|asap|maybe|crazy|in)\b|\bcall me$"
)
_POLITE = re.compile(
    r"^(?:(?:hey|hi|ok|okay|and|so|please|also|bitte) )*(?:(?:can|could|would|will) you|(?:kannst|könntest|würdest) du"
    r"|(?:können|könnten|würden) sie|puedes|podrías|puede|podría|peux-tu|pourrais-tu|pouvez-vous|pourriez-vous|puoi"
    r"|potresti|você pode|можешь|можете)\b|能不能|能否|可以.{0,20}吗|いただけ|もらえ|주시겠|줄래"
)
_QUESTION = re.compile(
    r"[?？]\W*$|[吗呢么嗎]\W*$|^(?:why|what|how|did|does|is|are|was|were|have|has|who|where|warum|wieso|was|wie|por qué|pourquoi|почему)\b"
)
_ORDERS = re.compile(
    r"\b(?:please|(?<!i )must|(?<!i )should|(?<!i )shall|(?<!i )need|needs to|want you|i want|let's|bitte|soll\w{0,4}|musst|müssen|muss|darf\w{0,2}"
    r"|dürfen|möchte|(?<!i )(?<!it )(?<!we )will|debes|debe|tienes|quiero|dois|devez|doit|veux|devi|deve|должен|должна|хочу)\b"
)
_SUBJECT = re.compile(
    r"^(?:(?:and|but|so|well|oh|no|yes|because|und|aber|ja|nein) )*(?:it|it's|he|she|they|we|this|that|there|you|the|these|those"
    r"|my|our|his|her|their|some|who|das|er|es|sie|wir|die|der|mein|meine|unser|unsere|ich|man|il|elle|on|ça|ce|c'est|cela|nous"
    r"|ils|elles|je|j'ai|le|la|les|mon|ma|ella|él|ellos|eso|esto|yo|lui|lei|io|он|она|оно|они|мы|я|это|ele|ela|isso|eu)\b"
)
_HABIT = re.compile(
    r"\bi (?:always|never) (?!get\b|got\b|forget\b|forgot\b|see\b|saw\b|have\b|had\b|was\b|wonder|said\b|did\b|knew\b|thought\b"
    r"|told\b|made\b|came\b|went\b|heard\b|been\b|met\b|found\b|find\b|felt\b|feel\b|hope\b|look\b|would|wonder|love\b|think\b|read\b|\w+ed\b)\w+"
)
_SUBJECT_BEFORE = re.compile(
    r"\b(?:i've|i'd|i have|i had|it|he|she|we|they|you|that|this|who|which|has|have|had|was|were|is|are|'s|'ve|you've|we've)"
    r"(?: has| have| had| would)? (?:always|never|ever)\b|^(?:actually |oh |ok |okay |well )*never (?:mind|seen|heard|been|had|tried)\b"
)
_TOLD = re.compile(
    r"\b(?:i|i'm|i've|i'd|i'll|it's|it|we|we're|we've|he|she|they|that's|there's|who|myself|one|made|felt|is|was|are|were)\b"
)
"""In English, who or what the rest of a report is about."""
_CONDITION = re.compile(r"^(?:if|when|whenever|before|after|once|unless|while|for|hi|hello|hey)\b")
_ONLY_NOW = re.compile(
    r"\b(?:i'd|would|really|we'd) (?:\w+ )?(?:prefer|rather)\b|\bthe answer in\b|\brather not\b"
)
_FAILS = re.compile(r"^(?:ya )?(?:nunca|jamás) \w+(?:a|ía|ó)\b|^никогда не \w+(?:ет|ит)\b")
_POINTER = re.compile(
    r"^(?:please |bitte |and |also |(?:can|could|will|would) you )*(?:remember|note|keep|bear|don't forget|do not forget|merk dir|merke dir|merken sie sich"
    r"|denk(?:e)?|denken sie|vergiss|recuerda|recuérdalo|ten|souviens-toi|n'oublie pas|ricorda|ricordalo|запомни|lembre-se)"
    r"(?: (?:that|this|it|in mind|please|das|es|bitte|daran|dran|nicht|eso|esto|en cuenta|lo|ça|cela|de|questo|это|disso))*$"
)
_POINTER_ANYWHERE = re.compile(
    r"^(?:请|請)?(?:记住|記住|记得|記得)(?:这(?:一)?(?:点|個|个)?|這(?:一)?點|那个|它|了)?$|^(?:それを)?覚えておいて(?:ください|ね)?$|^기억해(?:요|줘|주세요)?$"
)


def is_lasting(instruction: str) -> bool:
    """Return whether an instruction speaks of the future as such. Others give way first when space is short."""
    adverbs = _holds_one(instruction, _ADVERBS, ADVERBS_ANYWHERE)
    return adverbs or _holds_one(instruction, _LASTING, LASTING_ANYWHERE)


def telling_words(vocabulary: Iterable[str]) -> frozenset[str]:
    """Return the words that a message with an instruction must have, so that most messages are skipped."""
    return frozenset(
        word
        for word in vocabulary
        if not _CUES.isdisjoint(_WORD.findall(_plain(word))) or _WITHOUT_SPACES.search(word)
    )


def find_instructions(text: str, before: str = "") -> list[str]:
    """Return the sentences that are meant to last, in order. `before` is what "remember that" refers to."""
    found: list[str] = []
    lines = text.splitlines()
    listed_until = 0
    for index, line in enumerate(lines):
        if index < listed_until:
            continue
        for sentence in _sentences(line):
            if is_pointer(sentence):
                if before and before not in found[-1:]:
                    found.append(_one_line(f"{before} {sentence}"))
                    before = ""
            elif is_standing(sentence):
                listed = _list_under(lines, index) if sentence.endswith((":", "：")) else []
                listed_until = index + 1 + len(listed)
                found.append(_one_line(" ".join((sentence, *listed))))
            before = sentence if _states(sentence) else before
    return found


def possible_remarks(text: str) -> list[str]:
    """Return the sentences that are short, and neither rules nor about this time only."""
    sentences = (sentence for line in text.splitlines() for sentence in _sentences(line))
    return [
        _one_line(sentence)
        for sentence in sentences
        if 0 < len(sentence) <= MAX_CHARACTERS
        and not _holds_one(sentence, _THIS_TIME, THIS_TIME_ANYWHERE)
        and not is_pointer(sentence)
        and not is_standing(sentence)
    ]


def last_statement(text: str) -> str:
    """Return the sentence that "remember that" would refer to right after this text."""
    said = [sentence for line in text.splitlines() for sentence in _sentences(line) if sentence]
    return said[-1] if said and _states(said[-1]) and len(said[-1]) <= MAX_CHARACTERS else ""


def is_pointer(sentence: str) -> bool:
    """Recognise "Remember that" and the like."""
    words = " ".join(_WORD.findall(_plain(sentence)))
    return bool(_POINTER.match(words) or _POINTER_ANYWHERE.match("".join(_WORD.findall(sentence))))


def is_standing(sentence: str) -> bool:
    """Return whether a sentence is meant to hold beyond the present task, or takes back one that did."""
    if revocation_kind(sentence):
        return True
    words = _WORD.findall(_plain(sentence))
    plain = " ".join(words)
    if _QUESTION.search(_plain(sentence)) and not _POLITE.search(plain):
        return False
    if _DIET.search(plain):
        return True
    # Not "call me tomorrow", "the answer in numbers".
    is_other = _CALL_ME.search(plain) or _ONLY_NOW.search(plain)
    if not is_other and _holds_one(sentence, _LASTING, LASTING_ANYWHERE):
        return not _is_once(sentence, plain) and not _is_told(plain, _LASTING)
    if _holds_one(sentence, _THIS_TIME, THIS_TIME_ANYWHERE):
        return False
    if _IN_THIS_TEXT.search(plain) or _AT_LEISURE.search(plain):
        return False
    if _holds_one(sentence, _ADVERBS, ADVERBS_ANYWHERE) and not _is_report(sentence, plain):
        return True
    clauses = [
        part for part in _plain(sentence).split(", ") if _holds_one(part, _PREFERENCES, PREFERENCES_ANYWHERE)
    ]
    if clauses or _LANGUAGE.search(plain):
        return not any(map(_ONE_OFF.search, clauses)) and not _ONLY_NOW.search(plain)
    if _GENERAL.search(plain):
        return not _DEFINITE.search(plain)
    return bool(_GENERAL_ANYWHERE.search(sentence) and not _DEFINITE_ANYWHERE.search(sentence))


def _is_once(sentence: str, plain: str) -> bool:
    """Tell "just this once, answer in French" from "starting today"."""
    lasts = any(start in plain for start in ("from ", "starting", "ab ", "a partir", "à partir", "с "))
    return not lasts and _holds_one(sentence, _THIS_TIME, THIS_TIME_ANYWHERE)


def _is_report(sentence: str, plain: str) -> bool:
    """Tell "it never works" from "never call me"."""
    if _is_told(plain, _ADVERBS):
        return True
    if _SUBJECT_BEFORE.search(plain) and not re.search(r"\b(?:must|should|shall)\b", plain):
        return True
    if _HABIT.search(plain) or (_ORDERS.search(plain) and not re.search(r"\bwould\b", plain)):
        return False
    clause = " ".join(_WORD.findall(_plain(sentence).rpartition(", ")[2]))
    first_person = re.match(r"(?:well |but |and |no )*i(?:'ve|'m|'d)?\b", plain) and not plain.startswith(
        "if "
    )
    if first_person or _SUBJECT.match(plain) or _FAILS.match(plain) or _REPORTS_ANYWHERE.search(sentence):
        return clause == plain or not _holds_one(clause, _ADVERBS, ()) or bool(_SUBJECT.match(clause))
    return plain.endswith((" ever", "has ever")) and not re.search(r"\b(?:no|don't|never)\b", plain)


def _is_told(plain: str, phrases: dict[str, list[str]]) -> bool:
    """Recognise English stories in which the phrase comes late: "I felt better than I always do"."""
    spaced = f" {plain} "
    places = [spaced.find(each) for word in set(plain.split()) for each in phrases.get(word, ())]
    places = [place for place in places if place >= 0]
    before = spaced[: min(places, default=0) + 1].strip()
    if not before or _CONDITION.match(before) or _ORDERS.search(before):
        return False
    if re.search(r"\b(?:always|never) \w+[^s\W]s\b", plain):
        return True
    return _TOLD.search(before) is not None and not _HABIT.match(plain)


def _states(sentence: str) -> bool:
    return bool(sentence) and not is_pointer(sentence) and not _QUESTION.search(_plain(sentence))


def _holds_one(text: str, phrases: dict[str, list[str]], anywhere: Iterable[str]) -> bool:
    words = _WORD.findall(_plain(text))
    if telling := {word for word in words if word in phrases}:
        plain = f" {' '.join(words)} "
        if any(phrase in plain for word in telling for phrase in phrases[word]):
            return True
    return _WITHOUT_SPACES.search(text) is not None and any(phrase in text for phrase in anywhere)


def _plain(text: str) -> str:
    return text.lower().replace("’", "'")


def _sentences(line: str) -> list[str]:
    for end in _SENTENCE_ENDS:
        line = line.replace(end, f"{end}\n")
    line = _ABBREVIATED.sub(r"\1", line)
    return [sentence.strip()[:_LOOKED_AT] for sentence in line.split("\n")]


def _list_under(lines: Sequence[str], index: int) -> list[str]:
    following = lines[index + 1 : index + 1 + _MAX_LIST_LINES]
    return list(takewhile(lambda line: _LIST_ITEM.match(line) is not None, following))


def _one_line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= MAX_CHARACTERS else line[: MAX_CHARACTERS - 2] + " …"
