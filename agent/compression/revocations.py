# ruff: noqa: E501 - a pattern is easier to read in one piece
"""Finds revocations of rules: "the Friday rule no longer applies", "you can deploy on Fridays again".

A revocation removes a rule only if it is clear which one. Otherwise both stay, and the model that reads them decides, as
it does about remarks: sentences that may change a rule in words no pattern knows ("let's deploy on Friday after all").
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Literal

Kind = Literal["annulment", "permission", "release"]
"""A permission revokes a prohibition, a release a request, an annulment either."""

NumberedLine = tuple[int, str]
"""A line, and the number of the message that holds it."""

_RULE = r"(?:rules?|instructions?|restrictions?|bans?|polic(?:y|ies)|preferences?)"
_ENGLISH_DROP = (
    r"(?:forget|drop|scrap|cancel|lift|remove|ignore|disregard|revoke|undo|withdraw|discard|never mind)"
)
_REGEL = r"(?:regel|regelung|anweisung|vorgabe|vorschrift|einschränkung|verbot)"
_WAS_SAID = r"(?:said|told|asked|wrote|mentioned|wanted)"


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns))


_KINDS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    (
        "annulment",
        _any(
            r"\bno longer (?:applies|apply|holds|hold|valid|needed|necessary|required|in force|in effect|relevant)\b",
            r"\b(?:does not|doesn't|do not|don't|is not|isn't|are not|aren't) (?:apply|hold|valid|needed|necessary|required)"
            r" (?:any ?more|any longer)\b",
            rf"\b{_ENGLISH_DROP} (?:about )?(?:what|everything|anything|all) i(?:'ve| have)? {_WAS_SAID}\b",
            rf"\b{_ENGLISH_DROP} (?:about )?(?:(?:the|my|that|this|your|all|every|those|these) )+(?:[\w'-]+ ){{0,4}}{_RULE}\b",
            r"\b(?:forget|drop|scrap|ignore|never mind) (?:about )?the [\w'-]+ thing\b|\blimit (?:is|has been) lifted\b",
            rf"\b{_RULE}\b[^.]{{0,80}}\b(?:is|are|has been|have been) (?:now )?(?:lifted|off|void|cancell?ed|revoked|obsolete|gone|over)\b",
            rf"\b(?:lifted|dropped|removed|cancell?ed|scrapped|revoked) (?:the|my|our) (?:[\w'-]+ ){{0,3}}{_RULE}\b",
            r"\bi take back\b|\bi(?:'ve| have)? changed my mind about\b",
            # German
            r"\b(?:gilt|gelten|zählt|zählen)\b[^.]{0,60}\bnicht mehr\b|\bnicht mehr (?:gültig|nötig|notwendig)\b",
            rf"\b{_REGEL}\b[^.]{{0,80}}\b(?:aufgehoben|hinfällig|gestrichen|erledigt)\b",
            r"\bdas mit\b[^.]{0,60}\bhat sich (?:damit )?erledigt\b|\bvergiss das mit\b",
            r"\b(?:vergiss|vergesst|vergessen sie|ignoriere?|streiche?)\b[^.]{0,30}\bwas ich\b",
            rf"\b(?:vergiss|ignoriere?|streiche?|lass) (?:bitte )?(?:die|das|meine) (?:\w+ ){{0,3}}{_REGEL}\b",
            # Spanish, Portuguese, Italian, French
            r"\bya no (?:aplica|se aplica|vale|rige)\b|\bolv[ií]da(?:te)? (?:de )?lo que (?:te )?dije\b",
            r"\besque(?:ce|ça|ca) o que (?:eu )?(?:te )?disse\b|\bnão (?:vale|se aplica) mais\b",
            r"\bdimentica (?:quello|quel|ciò) che (?:ti )?ho detto\b|\bnon (?:vale|si applica) più\b",
            r"\boubliez? ce que j'ai dit\b|\bne (?:s'applique|vaut|compte) plus\b|\bn'est plus (?:valable|nécessaire)\b",
            # Russian
            r"\bзабудь(?:те)?\b[^.]{0,20}\bчто я\b|\bбольше не (?:действует|действуют|актуальн\w+)\b",
            # Chinese, Japanese, Korean
            r"不再(?:适用|適用|有效)|作废|作廢|(?:忘了|忘掉|忘记|忘記)我(?:说|說|讲|講)|(?:取消|撤销|撤銷).{0,12}(?:规则|規則|规定|規定|要求|限制)",
            r"もう.{0,20}忘れて|(?:件|ルール|指示).{0,12}(?:解除|取り消|忘れて|なしで)|適用(?:されません|しません|されない)",
            r"(?:규칙|말|지시).{0,12}(?:잊어|취소|해당되지)",
        ),
    ),
    (
        "permission",
        _any(
            r"\byou(?:'re| are)? (?:can|may|could|allowed to|free to|welcome to)\b[^.]{1,120}\b(?:again|after all)\b",
            r"\b(?:is|are|'s|'re) (?:fine|ok|okay|allowed|permitted|alright|all right|welcome) (?:again|after all|from now on)\b",
            r"\b(?:is|are) (?:allowed|permitted|welcome) now\b",
            r"\b(?:darf|dürfen) (?:man )?(?:ab jetzt |jetzt )?wieder\b",
            r"\b(?:du|ihr|sie) (?:darfst|kannst|dürft|könnt|dürfen|können)\b[^.]{0,120}\bwieder\b",
            r"\b(?:geht|gehen) (?:ab jetzt |jetzt )?wieder$",
            r"\b(?:ist|sind) (?:ab jetzt |jetzt )?wieder (?:erlaubt|ok|okay|in ordnung|gestattet|willkommen)\b",
            r"\b(?:puedes|puede|podéis) volver a\b|\b(?:puedes|puede|podes|pode)\b[^.]{0,120}\b(?:de nuevo|otra vez|de novo|novamente)\b",
            r"\b(?:tu peux|vous pouvez|on peut)\b[^.]{0,60}\b(?:de|à) nouveau\b|\bpuoi (?:di nuovo|ancora)\b",
            r"\b(?:можно|можешь|можете) (?:снова|опять)\b",
            r"(?:又|重新|再次)可以|可以(?:重新|再次|继续)|また.{1,30}(?:てもいい|て(?:も)?よい|て大丈夫)|다시 .{1,30}(?:해도|돼|되)",
        ),
    ),
    (
        "release",
        _any(
            r"\byou (?:do not|don't|need not|needn't)\b[^.]{0,120}\b(?:any ?more|any longer)\b|\byou no longer (?:have|need) to\b",
            r"\bi no longer (?:want|prefer)\b",
            r"\b(?:does not|doesn't|do not|don't) (?:need|have) to\b[^.]{1,120}\b(?:any ?more|any longer)\b",
            r"\bno (?:longer any )?need to\b[^.]{1,120}\b(?:any ?more|any longer)\b"
            r"|^(?:please )?stop (?:answering|replying|responding|writing|speaking|talking|using|calling|sending|adding|including"
            r"|translating|reminding|copying|booking)\b",
            r"\b(?:musst|müsst|müssen|brauchst|braucht|brauchen)\b[^.]{0,120}\bnicht mehr\b|^hör (?:bitte )?auf\b",
            r"\bya no (?:hace falta|tienes que|tiene que|es necesario|necesitas)\b|\bnão precisas? mais\b|\bnon (?:devi|serve) più\b",
            r"\bplus besoin (?:de|d')|\bn'(?:as|avez) plus (?:à|besoin)\b|\bбольше не (?:нужно|надо)\b",
            r"(?:不用|不必|无需|無需|不需要)(?:再|每次|总是|一直)|もう.{1,30}なくて(?:も)?(?:いい|大丈夫)|(?:더 이상|이제).{1,30}않아도",
        ),
    ),
)  # fmt: skip

_NAMES_RULE = re.compile(
    rf"\bi(?:'ve| have)? {_WAS_SAID}\b|\b(?:rules?|instructions?|restrictions?|bans?|{_REGEL[3:-1]}|regeln|anweisungen|gesagt"
    r"|reglas?|regras?|regol[ae]|règles?|dije|disse|detto|dit|правил\w*|сказал\w?|говорил\w?)\b|\blimit (?:is|has been) lifted\b"
    r"|规则|規則|规定|規定|我[说說讲講]|ルール|指示|言った|규칙|지시"
)
_NEGATED = re.compile(
    rf"\b(?:don't|not|never|not to|(?<!can )(?<!could )(?<!would )(?<!will )you|they|he|she|always|keep|(?:told|tells|asked) (?:me|him|her|us|them) to) (?:ever |always |just |still )?{_ENGLISH_DROP}\b"
    r"|\b(?:says|reads|states): |\b(?:vergiss|vergesst|vergessen sie|ignoriere?)\b(?: \w+)? nicht\b"
    r"|\b(?:no|não|non) (?:te )?(?:olvides?|esque\w+|dimenticare)\b|\bn'oubliez?\b|\bне забу\w+"
)
_ASKS = re.compile(r"[?？]$")
_POLITE = re.compile(
    r"\b(?:can|could|would|will) you\b|\b(?:kannst|könntest) du\b|\b(?:können|könnten) sie\b"
)
_THIS_ONE = re.compile(r"\b(?:it|this|these|those|dies\w{0,2})\b")

_PROHIBITS = re.compile(
    r"\b(?:never|not|don't|mustn't|no|avoid|without|nie|niemals|nicht|keine?[nrms]?|nunca|jamás|jamais|ne|n'\w+|mai|não|non"
    r"|никогда|не|нельзя|under no circumstances|auf keinen fall)\b|不|别|別|禁止|勿|ない|いけません|だめ|마세요|마라|지 마|말아"
)
_SPEAKER = re.compile(r"([^\n:\[\]<>|]{1,40}): ")

_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff]+")
_WORD = re.compile(r"[^\W\d_\u3040-\u30ff\u3400-\u9fff]+|\d+")
_NO_TOPIC_TEXT = """
    a about after again all allowed also always am an and any anymore anything are ask asked at back ban bans be
    because been before but by can cancel cancelled could did do does doesn don drop ever every everything few fine
    for forget free from going had has have he her him his i if ignore in instruction instructions is isn it its
    just keep let lift lifted limit limits long longer made make mentioned may me mind more must my need needed
    never no not now of off ok okay on once only order orders over permitted please policy preference request
    restriction right rule rules said scrap should so stop such take than that the their them then there these they
    thing things this those to told too under undo until us use using valid ve void want wanted was we what when
    whenever while will with without would write wrote you your apply applies holds necessary required relevant
    remember changed welcome re ll ab aber alle alles als anweisung auch auf aus bei bin bis bitte brauchst braucht
    das dass dein deine dem den der des die dir doch du durch ein eine einen einer erlaubt es für gehen geht gelten
    gesagt gilt habe haben hat ich ihr im immer ist ja jetzt kannst kein keine keinen kann können künftig man mehr
    mein meine meiner merk mich mir mit musst nach nicht nie niemals noch nötig nur ob oder regel regelung sache
    schon sein sich sie sind sofort soll sollst stets über um und uns vergiss vom von vor war wenn werden wie wieder
    wir wird zu zum zur zukunft darfst dürfen esse al como con de del desde el ella en esa ese eso esta este esto la
    las le lo los mi mis nunca o para pero por porque puedes que se si siempre sin sobre su te tu un una volver y ya
    hace falta tienes necesario olvida dije nuevo ahora partir adelante erledigt lass weg verwende verwenden benutze
    benutzen à au aux avec ce ces cette dans elle est et il ils je les leur lui ma mais mes moi mon ne nos notre
    nous ou par pas peux plus pour qui s sa ses son sur ta tes toi ton toujours une vous jamais règle oublie dit
    désormais ai n d l j c и в на не что я ты он она мы вы с по о об про за для от к у же ли бы это всегда никогда
    забудь говорил больше снова можно 이제 앞으로 항상 절대 반드시 매번 주세요 돼요 돼 않아도 해도 더 이상 다시 규칙 말
"""
_NO_TOPIC = frozenset(_NO_TOPIC_TEXT.split())
_NO_TOPIC_SIGNS = frozenset(
    "的了不要请用再我你在以后今后始终总是每次都必须规定规则适用回的はをにがでとものへやかないてくださいもう件今後必ず常忘れ"
)
_SAME = {
    name: names.split()[0]
    for names in (
        "german deutsch allemand alemán tedesco alemão немецкий немецки",
        "english englisch anglais inglés inglese inglês английский английски",
        "french französisch français francés francese francês французский французски",
        "spanish spanisch espagnol español spagnolo espanhol испанский испански",
        "russian russisch russe ruso russo русский русски",
        "friday freitag vendredi viernes venerdì пятница пятницу",
        "monday montag lundi lunes lunedì понедельник",
        "weekend wochenende",
    )
    for name in names.split()
}
_WHOLE = re.compile(
    r"\b(?:all|every|everything|alle|alles|todo|todas|tout|toutes|все|всё)\b|所有|全部|すべて|모든"
)
_ABOUT_ONE = re.compile(r"\b(?:about|it|him|her|them)\b")
_WHEN_TEXT = "today tomorrow yesterday starting heute morgen gestern hoy mañana ayer demain hier"
_WHEN = frozenset(_WHEN_TEXT.split())
_SAID_ON = re.compile(r" \(said on [^)]{1,20}\)$")

_CHANGES = re.compile(
    r"\b(?:again|now|no longer|any ?more|any longer|after all|back|switch|forget|drop|skip|optional|whatever|either way|instead|fine|ok|okay|allowed|permitted|welcome"
    r"|feel free|free to|go ahead|you (?:can|may)|no need|needn't|(?:don't|do not) (?:need|have) to|stop|over|lifted|no problem"
    r"|(?:don't|do not) mind|chang(?:e|ed)|unless|except|exception"
    r"|wieder|jetzt|nicht mehr|doch|okay|kein problem|darfst|kannst|brauchst|ausnahme"
    r"|ahora|ya no|de nuevo|puedes|maintenant|plus besoin|ne \w+ plus|peux|pouvez|adesso|puoi|agora|pode|теперь|снова|можно|больше не)\b"
    r"|可以|现在|現在|不用|不必|不再|就好|就行|也行|没关系|沒關係|不介意|もう|てもいい|大丈夫|이제|다시|괜찮"
)
"""Words of a change. Together with the topic of a rule they make a remark."""
_LANGUAGE_NAMES = """
    german english french spanish russian italian portuguese chinese japanese korean dutch polish turkish arabic
    德语 英语 中文 英文 法语 日语 韩语 俄语
"""
_LANGUAGES = frozenset(_LANGUAGE_NAMES.split())
_MOST_REMARKS_PER_RULE = 3
_MOST_RULES_PER_REMARK = 5
_LONGEST = 1_000
"""Characters of a sentence that are read. The cost of some patterns grows with the square of its length."""


def revocation_kind(sentence: str) -> Kind | None:
    """Return how a line takes a rule back. None if it takes nothing back, or names neither a topic nor an earlier rule."""
    bare = _bare(sentence)
    plain = _plain(bare)
    if _NEGATED.search(_plain(sentence[:_LONGEST])) or (_ASKS.search(plain) and not _POLITE.search(plain)):
        return None
    kind = next((kind for kind, pattern in _KINDS if pattern.search(plain)), None)
    if kind is None or (kind == "annulment" and _NAMES_RULE.search(plain)):
        return kind
    return kind if _topics(bare) and not _THIS_ONE.search(plain) else None


def concerns(revocation: str, rules: Iterable[str]) -> bool:
    """Return whether a line speaks of a rule or shares a topic with one."""
    bare = _bare(revocation)
    topic = _lasting_topics(bare)
    return _NAMES_RULE.search(_plain(bare)) is not None or any(
        _shared_topics(topic, _lasting_topics(_bare(rule))) for rule in rules
    )


def without_revoked(rules: Sequence[str], revocation: str) -> list[str]:
    """Return the rules that still hold. In a group, people can only take back their own rules."""
    kind, bare = revocation_kind(revocation), _bare(revocation)
    theirs = [rule for rule in rules if _may_revoke(rule, revocation) and not revocation_kind(rule)]
    if kind is None or not theirs:
        return list(rules)
    plain = _plain(bare)
    names_rule = _NAMES_RULE.search(plain) is not None
    if not _topics(bare):
        everything = _WHOLE.search(plain) and not _ABOUT_ONE.search(plain)
        gone = theirs if everything and names_rule and kind == "annulment" else []
        return [rule for rule in rules if rule not in gone]
    topic = _lasting_topics(bare)
    topics = {rule: _lasting_topics(_bare(rule)) for rule in theirs if _fits(kind, rule)}
    scores = {rule: _shared(topic, others) for rule, others in topics.items()}
    best = max(scores.values(), default=0)
    meant = [rule for rule, score in scores.items() if score == best]
    # "You can book the hotel again" is not about seats, though both are booked; "you don't have to answer the German
    # mail" is not about the language of answers.
    needed = len(topic) / 2 if kind == "annulment" and names_rule else len(topic)
    if best == 0 or best < needed or len(meant) > 1:
        return list(rules)
    # "You can deploy to prod again" does not say that it may be on Fridays.
    others = topics[meant[0]]
    covered = _shared(others, topic) / len(others)
    is_covered = covered > 2 / 3 if kind == "permission" else covered >= 1 / 2
    return [rule for rule in rules if rule != meant[0] or not is_covered]


def find_remarks(sentences: Sequence[NumberedLine], rules: Sequence[NumberedLine]) -> list[NumberedLine]:
    """Return the sentences that may change an earlier rule: the closest for each rule, the newest first."""
    about = [
        (place, rule, _lasting_topics(_bare(rule))) for place, rule in rules if not revocation_kind(rule)
    ]
    by_start: dict[str, list[int]] = {}
    for number, (_, _, topics) in enumerate(about):
        for start in _starts(topics):
            by_start.setdefault(start, []).append(number)
    found: list[list[tuple[int, int]]] = [[] for _ in about]
    for number, (place, sentence) in enumerate(sentences):
        bare = _bare(sentence)
        plain = _plain(bare)
        if _ASKS.search(plain):
            continue
        topics, speaks_of_change = _lasting_topics(bare), bool(_CHANGES.search(plain))
        alike = Counter(rule for start in _starts(topics) for rule in by_start.get(start, ()))
        for meant, _ in alike.most_common(_MOST_RULES_PER_REMARK):
            said, rule, others = about[meant]
            shared = _shared_topics(topics, others) if said < place and _may_revoke(rule, sentence) else 0
            if shared and (speaks_of_change or shared > 1 or 2 * shared >= len(others)):
                found[meant].append((shared + speaks_of_change, number))
    kept = {number for remarks in found for _, number in sorted(remarks)[-_MOST_REMARKS_PER_RULE:]}
    return [sentences[number] for number in sorted(kept)]


def topic_words(vocabulary: Iterable[str], rules: Iterable[str]) -> frozenset[str]:
    """Return the words that a message with a remark must have, so that most messages are skipped."""
    starts = {start for rule in rules for start in _starts(_lasting_topics(_bare(rule)))}
    return frozenset(
        word for word in vocabulary if _UNSPACED.search(word) or not starts.isdisjoint(_starts(_topics(word)))
    )


def _starts(topics: Iterable[str]) -> set[str]:
    return {
        "language" if topic in _LANGUAGES else topic[: 2 if "\uac00" <= topic[0] <= "\ud7af" else 4]
        for topic in topics
    }


def _shared_topics(topic: Sequence[str], others: Sequence[str]) -> int:
    """Count shared topics. Languages count as one topic: "English is fine now" is about "answer in German"."""
    same_kind = not _LANGUAGES.isdisjoint(topic) and not _LANGUAGES.isdisjoint(others)
    return _shared(topic, others) or int(same_kind)


def speaker_in(text: str) -> str:
    """Return the speaker's name as the host writes it in a group: before the first line; other lines are indented."""
    lines = [line for line in text.split("\n", 20)[:20] if line.strip()]
    own = [(before, line) for before, line in pairwise(["", *lines]) if not line.startswith("[")]
    if all(line.startswith("  ") or before.startswith("[") for before, line in own[1:]):
        return speaker_of(own[0][1]) if own else ""
    return ""


def speaker_of(line: str) -> str:
    found = _SPEAKER.match(line)
    return found[1] if found else ""


def _bare(line: str) -> str:
    """Return the line without speaker and date."""
    line = _SAID_ON.sub("", line)[:_LONGEST]
    found = _SPEAKER.match(line)
    return line[found.end() :] or line if found else line


def _may_revoke(rule: str, revocation: str) -> bool:
    speakers = {speaker_of(rule), speaker_of(revocation)} - {""}
    return len(speakers) < 2


def _fits(kind: Kind, rule: str) -> bool:
    prohibits = _PROHIBITS.search(_plain(rule)) is not None
    return kind == "annulment" or prohibits == (kind == "permission")


def _plain(text: str) -> str:
    return " ".join(text.lower().replace("’", "'").replace(",", " ").split()).rstrip(" .!。！")


def _topics(text: str) -> list[str]:
    """Return the words with a meaning, and pairs of signs in scripts without spaces."""
    plain = _plain(text)
    words = (
        _SAME.get(word, word)
        for word in _WORD.findall(plain)
        if word not in _NO_TOPIC and (len(word) > 1 or word.isdigit())
    )
    pairs = (
        first + second
        for run in _UNSPACED.findall(plain)
        for first, second in pairwise(run)
        if first not in _NO_TOPIC_SIGNS and second not in _NO_TOPIC_SIGNS
    )
    return list(dict.fromkeys([*words, *pairs]))


def _lasting_topics(text: str) -> list[str]:
    return [word for word in _topics(text) if word not in _WHEN]


def _shared(topic: Iterable[str], others: Sequence[str]) -> int:
    return sum(any(_is_same(word, other) for other in others) for word in topic)


def _is_same(one: str, other: str) -> bool:
    """Compare stems: Fridays and Friday, answering and answer, schicken and schick."""
    if one == other:
        return True
    short, long = sorted((one, other), key=len)
    if "\uac00" <= short[0] <= "\ud7af":
        return len(short) > 1 and short[:2] == long[:2]
    stem = short[: max(4, len(short) - 2)]
    return len(short) >= 4 and len(long) - len(short) <= 4 and long.startswith(stem)
