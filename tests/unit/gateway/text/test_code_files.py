"""Long code blocks become files."""

import pytest

from gateway.text.code_blocks import CodeFile, find_long_code

CODE = "first line\nsecond line\n"


def block(info: str, code: str = CODE) -> str:
    return f"```{info}\n{code}```\n"


def names(*infos: str) -> list[str]:
    return [file.name for file in find_long_code("\n".join(map(block, infos)), longer_than=10)]


def test_only_long_blocks() -> None:
    """Only a block with more characters of code than the limit becomes a file."""
    assert find_long_code(block("py"), longer_than=len(CODE)) == []
    assert find_long_code(block("py"), longer_than=len(CODE) - 1) == [CodeFile("code-1.py", CODE)]


@pytest.mark.parametrize(
    ("language", "extension"),
    [
        *[
            ("python", "py"),
            ("js", "js"),
            ("TypeScript", "ts"),
            ("bash", "sh"),
            ("json", "json"),
            ("yml", "yaml"),
        ],
        *[
            ("sql", "sql"),
            ("html", "html"),
            ("css", "css"),
            ("golang", "go"),
            ("rust", "rs"),
            ("java", "java"),
        ],
        *[("c", "c"), ("c++", "cpp"), ("markdown", "md"), ("patch", "diff"), ("", "txt"), ("klingon", "txt")],
    ],
)
def test_extensions(language: str, extension: str) -> None:
    """The language decides the extension; an unknown language gives `.txt`."""
    assert names(language) == [f"code-1.{extension}"]


@pytest.mark.parametrize(
    "info",
    [
        'python title="app.py"',
        "python title='app.py'",
        "python filename=src/app.py",
        "python:app.py",
        "app.py",
    ],
)
def test_a_name_given_with_the_code(info: str) -> None:
    """The usual ways in which models write a file name are recognised."""
    assert names(info) == ["app.py"]


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("../../.ssh/config.txt", "config.txt"),
        ("C:\\Windows\\system.ini", "system.ini"),
        ("/etc/passwd", "code-1.py"),
        (".bashrc", "code-1.py"),
        ("..", "code-1.py"),
        ("a..py", "code-1.py"),
        ("photo\u202egpj.py", "code-1.py"),
        ("nul\x00.py", "code-1.py"),
        ("An example", "code-1.py"),
        ("x" * 100 + ".py", "code-1.py"),
        ("Dockerfile", "Dockerfile"),
    ],
)
def test_unsafe_names(given: str, name: str) -> None:
    """Folders are removed; hidden files and strange characters are rejected."""
    assert names(f'python title="{given}"') == [name]


def test_names_are_unique() -> None:
    """Each file has a unique name."""
    given = names("py", "app.py", "app.py", "sh", "Dockerfile", "docker file=Dockerfile")
    assert given == ["code-1.py", "app.py", "app-2.py", "code-4.sh", "Dockerfile", "Dockerfile-2"]


def test_code_in_a_list_or_quotation() -> None:
    """The margin of a list or quotation is removed."""
    in_list = "1. Do this:\n   ```py\n   def f():\n       return 1\n   ```\n"
    quoted = "> ```py\n> def f():\n>     return 1\n> ```\n"
    for text in (in_list, quoted):
        assert find_long_code(text, longer_than=5) == [CodeFile("code-1.py", "def f():\n    return 1\n")]


def test_an_unclosed_block() -> None:
    """An incomplete answer gives the code that is there."""
    assert find_long_code("```py\nx = 1\ny = 2", longer_than=5) == [CodeFile("code-1.py", "x = 1\ny = 2\n")]


def test_a_very_long_answer_is_not_searched() -> None:
    """The search runs on the event loop, so its input is bounded."""
    code = f"```\n{'x' * 1_000}\n```\n"
    assert len(find_long_code(code * 100, longer_than=500)) == 100
    assert find_long_code(code * 200, longer_than=500) == []
