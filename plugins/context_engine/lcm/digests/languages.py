"""Programming languages: what a line must look like to declare or to import something.

Lines come cut and without white space at their end. Anybody may have written them, so no pattern may have two ways to
read the same stretch of a line: what repeats is parted by something that cannot be in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = r"[A-Za-z_$][\w$]{0,80}"
_TYPES = r"(?:[A-Za-z_][\w:<>,?\[\]]{0,80}[\s*&]+){1,5}"
"""Words before the name of a function, in languages where these say what it returns."""
_NO_STATEMENT = r"(?!(?:return|else|new|delete|throw|typedef|using|import|package|case|goto|await|yield)\b)"


@dataclass(frozen=True, slots=True)
class Language:
    name: str
    extensions: tuple[str, ...]
    declares: re.Pattern[str]
    imports: re.Pattern[str]
    tells: re.Pattern[str]
    """Other lines that hardly any other language has."""
    comment: str


def _language(
    name: str,
    extensions: str,
    declares: tuple[str, ...],
    imports: tuple[str, ...],
    tells: tuple[str, ...],
    comment: str = "//",
) -> Language:
    return Language(
        name, tuple(extensions.split()), _any_of(declares), _any_of(imports), _any_of(tells), comment
    )


def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns) or "(?!)")


def _modifiers(*words: str) -> str:
    return rf"(?:(?:{'|'.join(words)})\s+){{0,5}}"


_JS_DECLARES = (
    rf"{_modifiers('export', 'default', 'declare', 'abstract', 'async')}function\b\s*\*?\s*[\w$]{{0,80}}\s*[(<]",
    rf"{_modifiers('export', 'default', 'declare', 'abstract')}class\s+{_NAME}[^;]*\{{",
    rf"(?:export\s+)?(?:const|let|var)\s+{_NAME}[^=]{{0,80}}=\s*(?:async\s+)?(?:\(|function\b|{_NAME}\s*=>)[^;]*(?:=>|\{{|\()",
    r"export\s+(?:const|let|var|default|\{|\*)",
    rf"(?:module\.)?exports(?:\.{_NAME})?\s*=",
    r"\s{1,8}"
    + _modifiers("static", "async", "public", "private", "protected", "readonly", "get", "set")
    + rf"(?!(?:if|for|while|switch|catch|return|function|with|else|do)\b)#?{_NAME}\s*\([^;]*\{{$",
)
_JS_IMPORTS = (
    r"import\s+[\"']",
    r"import\s+[\w*{][^\"';]*\sfrom\s+[\"']",
    r"(?:const|let|var)\s+[^=]{1,100}=\s*require\(",
)

LANGUAGES: tuple[Language, ...] = (
    _language(
        "Python",
        "py pyi pyw",
        (
            rf"\s{{0,40}}(?:async\s+)?def\s+{_NAME}\s*[(\[]",
            rf"\s{{0,40}}class\s+{_NAME}(?:\([^;]*|\[[^;]*)?:?$",
        ),
        (
            r"from\s+[\w.]{1,100}\s+import\s+[\w(*]",
            r"import\s+[\w.]{1,100}(?:\s+as\s+\w+|,[\w., ]+)?(?:\s*#.*)?$",
        ),
        (
            r"\s{0,40}@[\w.]{1,80}(?:\(.*\))?$",
            r"\s{0,40}(?:if|elif|for|while|with|try|except|else)\b.*:$",
            r"\s{0,40}self\.\w+\s*=",
            r"\s{1,40}return\b[^;]*$",
        ),
        "#",
    ),
    # Before TypeScript, which has all of its lines and others: where none of those is there, it is the plainer one.
    _language(
        "JavaScript", "js jsx mjs cjs", _JS_DECLARES, _JS_IMPORTS, (r"\s{0,20}(?:const|let|var)\s+\w+\s*=",)
    ),
    _language(
        "TypeScript",
        "ts tsx mts",
        (
            *_JS_DECLARES,
            rf"{_modifiers('export', 'declare', 'const')}(?:interface|enum|namespace)\s+{_NAME}",
            rf"{_modifiers('export', 'declare')}type\s+{_NAME}\s*(?:<[^=]*)?=",
        ),
        _JS_IMPORTS,
        (
            r"[^:]{0,100}:\s*(?:string|number|boolean|void|unknown|Promise<|Record<)",
            r".{0,100}\bas\s+const\b",
        ),
    ),
    _language(
        "Go",
        "go",
        (
            rf"func\s+(?:\([^)]{{1,80}}\)\s*)?{_NAME}\s*[(\[]",
            rf"type\s+{_NAME}(?:\[[^\]]{{1,60}}\])?\s+[\w\[*]",
        ),
        (r"import\s+(?:\w+\s+)?[(\"]", r"\s{1,8}(?:[\w.]+\s+)?\"[\w./-]{2,100}\"$"),
        (r"package\s+\w+$", r"\s{0,40}[\w, ]{1,80}:=", r"\s{0,40}(?:if\s+err\s*!=\s*nil|defer\s|go\s+func)"),
    ),
    _language(
        "Rust",
        "rs",
        (
            r"\s{0,20}(?:pub(?:\([\w: ]{1,30}\))?\s+)?"
            + _modifiers("async", "unsafe", "const", 'extern "C"')
            + rf"(?:fn|struct|enum|trait|union|mod)\s+{_NAME}",
            rf"\s{{0,20}}(?:pub\s+)?type\s+{_NAME}[^=;]*=",
            r"\s{0,20}(?:unsafe\s+)?impl\b[^;]*\{",
            rf"macro_rules!\s*{_NAME}",
        ),
        (r"\s{0,8}(?:pub\s+)?use\s+[\w:]{1,100}[^;]*;?$", r"extern\s+crate\s"),
        (r"\s{0,40}let\s+(?:mut\s+)?\w+", r"\s{0,40}#!?\[\w", r"\s{0,40}match\s[^;]*\{$"),
    ),
    _language(
        "Java",
        "java",
        (
            r"\s{0,16}"
            + _modifiers("public", "private", "protected", "static", "final", "abstract", "sealed")
            + rf"(?:class|interface|enum|record|@interface)\s+{_NAME}[^;]*$",
            rf"\s{{0,16}}{_NO_STATEMENT}{_TYPES}{_NAME}\s*\([^;]*\{{$",
        ),
        (r"import\s+(?:static\s+)?[a-z][\w.*]{2,120};",),
        (
            r"package\s+[\w.]{1,100};",
            r"\s{0,40}@[A-Z]\w+(?:\(.*\))?$",
            r"\s{0,40}System\.out\.",
            r"\s{0,16}(?:public|private|protected)\s[^({]*[=;]",
        ),
    ),
    _language(
        "C#",
        "cs",
        (
            r"\s{0,16}(?:public|private|protected|internal)\s+"
            + _modifiers("static", "sealed", "abstract", "partial", "readonly")
            + rf"(?:class|interface|enum|record|struct)\s+{_NAME}",
            rf"\s{{0,16}}(?:public|private|protected|internal)\s+{_TYPES}{_NAME}\s*\([^;]*[){{]$",
            r"\s{0,8}namespace\s+[A-Z][\w.]{1,100}",
        ),
        (r"using\s+(?:static\s+)?[A-Z][\w.]{2,100};",),
        (r"\s{0,40}\[[A-Z]\w+(?:\(.*\))?\]$", r".{0,100}\{\s*get;"),
    ),
    _language(
        "C or C++",
        "c h cc cpp cxx hpp hh",
        (
            rf"{_NO_STATEMENT}{_TYPES}(?:[\w~]{{1,80}}::){{0,3}}~?{_NAME}\s*\([^;]*[{{;,)]$",
            rf"\s{{0,8}}(?:typedef\s+)?(?:struct|class|enum|union)\s+{_NAME}[^;()]*$",
            rf"namespace\s+{_NAME}",
            rf"#define\s+{_NAME}\(",
            r"template\s*<",
        ),
        (r"#\s*include\s*[<\"]",),
        (r"#\s*(?:ifn?def|define|endif|pragma)\b", r"\s{0,40}(?:std::\w+|printf\()"),
    ),
    _language(
        "Ruby",
        "rb rake",
        (
            rf"\s{{0,40}}def\s+(?:self\.)?{_NAME}[?!=]?(?:\s*\(.*|\s+\w.*)?$",
            r"\s{0,40}(?:class|module)\s+[A-Z][\w:]{0,80}[^;:({]*$",
        ),
        (r"require(?:_relative)?\s+[\"']",),
        (r"\s{0,40}end$", r"\s{0,40}attr_\w+\s+:", r".{0,200}\bdo(?:\s*\|[^|]{0,60}\|)?$"),
        "#",
    ),
    _language(
        "PHP",
        "php",
        (
            r"\s{0,16}"
            + _modifiers("public", "private", "protected", "static", "abstract", "final")
            + rf"(?:function\s+&?{_NAME}\s*\(|(?:class|interface|trait)\s+{_NAME}[^;]*$)",
        ),
        (r"\s{0,4}(?:use\s+[A-Z][\w\\]{1,120}|(?:require|include)(?:_once)?\b)[^;]*;",),
        (r"<\?php", r"\s{0,40}\$\w+(?:->\w+)?\s*=", r"namespace\s+[\w\\]+;"),
    ),
    _language(
        "Kotlin",
        "kt kts",
        (
            r"\s{0,16}"
            + _modifiers(
                *("public", "private", "internal", "protected", "override", "suspend", "inline", "open"),
                *("abstract", "data", "sealed", "enum"),
            )
            + rf"(?:fun\s+[\w.<>?, ]{{1,120}}\(|(?:class|interface|object)\s+{_NAME}[^;]*$)",
        ),
        (r"import\s+[a-z][\w.*]{2,120}$",),
        (r"package\s+[\w.]{1,100}$", r"\s{0,40}va[lr]\s+\w+\s*(?::|=|by)"),
    ),
    _language(
        "Swift",
        "swift",
        (
            r"\s{0,16}"
            + _modifiers("public", "private", "internal", "open", "static", "final", "override", "mutating")
            + rf"(?:func\s+{_NAME}\s*[(<]|(?:class|struct|protocol|extension|enum|actor)\s+{_NAME}[^;]*\{{|init\??\()",
        ),
        (r"import\s+[A-Z]\w{1,60}$",),
        (r"\s{0,40}(?:guard|if)\s+let\s", r"\s{0,40}let\s+\w+\s*[:=][^;]*$", r"\s{0,40}var\s+\w+\s*:[^;]*$"),
    ),
    _language(
        "shell",
        "sh bash zsh",
        (r"\s{0,8}function\s+[\w:-]{1,80}\s*(?:\(\))?\s*\{?$", r"\s{0,8}[A-Za-z_][\w:-]{0,80}\s*\(\)\s*\{?$"),
        (r"\s{0,8}(?:source|\.)\s+[\w./~$\"{}-]{2,100}$",),
        (
            r"#!.{0,40}sh\b",
            r"\s{0,40}(?:el)?if\s+\[",
            r"\s{0,40}(?:then|fi|done|esac)$",
            r"\s{0,40}(?:set\s+-\w|export\s+\w+=|local\s+\w+|echo\s)",
        ),
        "#",
    ),
    _language(
        "SQL",
        "sql",
        (
            r"(?i:\s{0,8}create\s+(?:[a-z]+\s+){0,4}(?:table|view|index|function|procedure|trigger|type|schema)\s)",
            r"(?i:\s{0,8}(?:alter|drop)\s+(?:table|view|index)\s)",
        ),
        (),
        (
            r"(?i:\s{0,16}select\s.{0,200}\bfrom\b)",
            r"(?i:\s{0,16}(?:insert\s+into|delete\s+from|update\s+\w+\s+set|foreign\s+key|primary\s+key)\b)",
            r"(?i:\s{0,16}(?:begin|commit);)",
        ),
        "--",
    ),
    _language(
        "CSS",
        "css scss less",
        (r"[.#:@*\[]?[A-Za-z][\w .#:>,~+*()\[\]=\"'@-]{0,160}\{$",),
        (r"@(?:import|use)\s",),
        (r"\s{1,8}[a-z-]{2,40}\s*:[^;{}]{1,120};$", r"@media\b"),
        "/*",
    ),
)
