"""Files that are not what they seem: names that lead elsewhere, links, and little bytes that become many."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path

import pytest

import gateway.media
from agent.events import FileSent, TextDelta, TurnDone, TurnStarted
from agent.store import Address, Conversation
from gateway.errors import AttachmentRefused
from gateway.media.attachments import AttachmentReader, AttachmentText
from gateway.platforms.web.markdown import render_markdown
from gateway.types import Attachment
from tests.support.chat_harness import chat_room
from tests.support.media_files import attachment, pdf, picture

CHAT = Conversation("conv_1", Address("telegram", "1"), "telegram:1", "ses_1", 0.0)
TWO_GIGABYTES = 2 * 1024**3
PDF_WORKER = Path(gateway.media.__file__).with_name("pdf_worker.py")


async def _take_in(workspace: Path, *files: Attachment) -> AttachmentText:
    async def sees_images(conversation: Conversation) -> bool:
        return True

    return await AttachmentReader(sees_images).read(files, CHAT, workspace)


def _files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        ("../../.ssh/x", "x"),
        ("..\\..\\.ssh\\x", "x"),
        ("/etc/cron.d/x", "x"),
        ("x\0.png", "x.png"),
        ("x\0/../../y", "y"),
        ("..", "file"),
        ("\u2025/.bashrc", "bashrc"),
    ],
)
async def test_a_name_that_leads_elsewhere(tmp_path: Path, name: str, kept: str) -> None:
    """The file is stored in the folder of sent files, under its base name; no other file is created."""
    workspace = tmp_path / "a" / "b" / "c"
    taken = await _take_in(workspace, attachment(name, b"content"))
    assert f"incoming/{kept}`" in taken.paragraphs[0]
    assert _files(tmp_path) == [workspace / "incoming" / kept]


async def test_a_folder_that_became_a_link(tmp_path: Path) -> None:
    """A command may have put a link in the place of the folder for files; nothing is written through it."""
    outside, workspace = tmp_path / "outside", tmp_path / "workspace"
    outside.mkdir()
    workspace.mkdir()
    (workspace / "incoming").symlink_to(outside)
    taken = await _take_in(workspace, attachment("x.txt", b"content"))
    assert "could not be taken" in taken.paragraphs[0]
    assert list(outside.iterdir()) == []


PATHS = [
    "MEDIA:/etc/passwd",
    "![x](/etc/passwd)",
    "[x](file:///etc/passwd)",
    "/etc/passwd",
    "<file:///etc/passwd>",
]


@pytest.mark.parametrize("written", PATHS)
async def test_a_path_that_the_model_writes_is_text(written: str) -> None:
    """Only the tool sends files, and only those of the workspace."""
    async with chat_room() as room:
        room.answer(f"Here it is:\n{written}\nDone.")
        shown = await room.ends()
        assert room.service.calls_of("send_file") == []
        assert all(message.data is None for message in shown)
        assert written in "\n".join(message.text for message in shown)
    page = render_markdown(written)
    assert 'src="' not in page and 'href="file' not in page and 'href="/etc' not in page


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside.txt", "link.txt", "linked/outside.txt"])
async def test_an_event_for_a_file_outside_sends_nothing(tmp_path: Path, path: str) -> None:
    """The platform reads the file again with the same checks: a link put there meanwhile is refused."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (tmp_path / "outside.txt").write_text("a secret")
    (workspace / "link.txt").symlink_to(tmp_path / "outside.txt")
    (workspace / "linked").symlink_to(tmp_path)
    async with chat_room() as room:
        room.play(TurnStarted("m1", "hi"), FileSent(str(workspace), path, "x.txt", ""), TextDelta("Done."))
        room.play(TurnDone("Done."))
        texts = [message.text for message in await room.ends()]
        assert room.service.calls_of("send_file") == []
        assert texts[0].startswith("⚠ `x.txt`: This file cannot be sent:")
        assert "secret" not in str(texts)


def _zip_bomb() -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"{number}.txt", bytes(10_000_000))
    return packed.getvalue()


def _pdf_bomb(characters: int) -> bytes:
    """A page whose text takes a thousand times the room of the file."""
    squeezed = zlib.compress(b"BT /F1 12 Tf (" + b"A" * characters + b") Tj ET")
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(squeezed), squeezed),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    trailer = b"trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF" % len(out)
    return out + b"xref\n0 6\n0000000000 65535 f \n" + table + trailer


async def test_an_archive_is_kept_and_not_opened(tmp_path: Path) -> None:
    """Fifty megabytes in fifty kilobytes stay fifty kilobytes."""
    bomb = _zip_bomb()
    taken = await _take_in(tmp_path, attachment("report.docx", bomb, "application/zip"))
    assert taken.paragraphs == [f"[File report.docx: kept as `incoming/report.docx`, {len(bomb):,} bytes]"]
    (kept,) = _files(tmp_path)
    assert kept.stat().st_size == len(bomb)


async def test_a_pdf_that_grows_when_it_is_read(tmp_path: Path) -> None:
    """The message goes on with its beginning."""
    bomb = _pdf_bomb(1_000_000)
    assert len(bomb) < 2_000
    taken = await _take_in(tmp_path, attachment("x.pdf", bomb), attachment("y.txt", b"still here"))
    assert "188,000 characters more are in the file" in taken.paragraphs[0]
    assert len(taken.paragraphs[0]) < 13_000
    assert "still here" in taken.paragraphs[1]


_LIMITS = """
import json, resource, runpy, sys
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
print(json.dumps(resource.getrlimit(resource.RLIMIT_AS)))
"""


def test_the_reader_of_pdfs_has_bounded_memory(tmp_path: Path) -> None:
    """No file makes the worker use more than a gigabyte."""
    (tmp_path / "x.pdf").write_bytes(pdf("hello"))
    command = [sys.executable, "-I", "-c", _LIMITS, str(PDF_WORKER), str(tmp_path / "x.pdf")]
    told = subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.splitlines()
    assert told[0] == b"hello"
    assert json.loads(told[-1]) == [1_000_000_000, 1_000_000_000]


async def test_two_gigabytes_are_not_fetched(tmp_path: Path) -> None:
    """The one who fetches is told how much is wanted, and that is far less."""
    asked: list[int] = []

    async def read(most: int) -> bytes:
        asked.append(most)
        raise AttachmentRefused("it is too large.")

    taken = await _take_in(tmp_path, Attachment("film.mkv", "video/x-matroska", "video", TWO_GIGABYTES, read))
    assert asked == [10_000_000]
    assert taken.paragraphs == ["[File film.mkv: it could not be taken: it is too large.]"]


@pytest.mark.parametrize(
    ("name", "mime", "kind", "data"),
    [
        ("cat.png", "image/png", "image", b"<script>alert(1)</script>"),
        ("cat.png", "image/png", "image", b"\x7fELF" + bytes(100)),
        ("cat.jpg", "image/jpeg", "image", b"%PDF-1.4 no picture"),
        ("notes.txt", "text/plain", "document", b"\x7fELF" + bytes(100)),
        ("notes.pdf", "application/pdf", "document", b"MZ" + bytes(100)),
    ],
)
async def test_the_content_counts_and_not_what_it_is_called(
    tmp_path: Path, name: str, mime: str, kind: str, data: bytes
) -> None:
    """No picture is shown that is none, and no bytes are read out as text; the file is kept."""
    taken = await _take_in(tmp_path, attachment(name, data, mime, kind))  # type: ignore[arg-type]
    assert not taken.images
    assert f"kept as `incoming/{name}`" in taken.paragraphs[0]
    assert "ELF" not in taken.paragraphs[0] and "alert" not in taken.paragraphs[0]


async def test_a_picture_called_a_text_is_not_read_out(tmp_path: Path) -> None:
    """Its bytes would fill the context with noise."""
    taken = await _take_in(tmp_path, attachment("notes.txt", picture(50, 50), "text/plain"))
    assert taken.paragraphs[0].startswith("[File notes.txt: kept as `incoming/notes.txt`")
    assert "IHDR" not in taken.paragraphs[0]
