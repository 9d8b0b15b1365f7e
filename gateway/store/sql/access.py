"""`Access` in SQL: pairing requests, approved people and signed-out cookies."""

from __future__ import annotations

import hmac

from gateway.store.access import AskingLimits, GuessingLimits, Paired, PairingLocked, PairingRequest
from gateway.store.sql.database import Connection, Part, read, write
from gateway.store.sql.rows import storable


def _is_approved(connection: Connection, platform: str, user_id: str) -> bool:
    row = connection.execute(
        "SELECT 1 FROM people WHERE platform = ? AND user_id = ?", (platform, user_id)
    ).fetchone()
    return row is not None


def _is_pending(connection: Connection, platform: str, digest: str, *, now: float) -> bool:
    row = connection.execute(
        """
        SELECT 1 FROM pairing_requests
        WHERE platform = ? AND code_hash = ? AND state = 'pending' AND expires_at > ?
        """,
        (platform, digest, now),
    ).fetchone()
    return row is not None


def _ask(connection: Connection, request: PairingRequest, digest: str, limits: AskingLimits) -> bool:
    """Store a request; requests older than the period of the limits are deleted."""
    now, who = request.asked_at, {"platform": request.platform, "user": request.user_id}
    _begin(connection, now)
    connection.execute("DELETE FROM pairing_requests WHERE asked_at <= ?", (now - limits.period_seconds,))
    (given,) = connection.execute(
        "SELECT count(*) FROM pairing_requests WHERE platform = :platform AND user_id = :user", who
    ).fetchone()
    if given >= limits.per_person:
        return False
    # Replaces the person's own code and, over the limit, the oldest ones, so that strangers cannot block newcomers.
    connection.execute(
        """
        UPDATE pairing_requests SET state = 'replaced'
        WHERE platform = :platform AND state = 'pending' AND (user_id = :user OR seq NOT IN (
            SELECT seq FROM pairing_requests
            WHERE platform = :platform AND user_id <> :user AND state = 'pending' AND expires_at > :now
            ORDER BY seq DESC LIMIT :kept
        ))
        """,
        {**who, "now": now, "kept": limits.pending - 1},
    )
    connection.execute(
        """
        INSERT INTO pairing_requests (platform, user_id, name, code_hash, asked_at, expires_at)
        VALUES (?, ?, ?, ?, ?, ?)
        """,
        (request.platform, request.user_id, storable(request.name), digest, now, request.expires_at),
    )
    return True


def _approve(
    connection: Connection, digest: str, *, by: str, now: float, limits: GuessingLimits
) -> Paired | None:
    _begin(connection, now)
    _refuse_while_locked(connection, now, limits)
    seq = _find(connection, digest, now)
    if seq is None:
        _record_wrong_code(connection, now, limits)
        return None
    return _approve_request(connection, seq, by, now)


def _approve_person(
    connection: Connection, platform: str, user_id: str, *, by: str, now: float
) -> Paired | None:
    _begin(connection, now)
    seq = _find_person(connection, platform, user_id, now)
    return None if seq is None else _approve_request(connection, seq, by, now)


def _approve_request(connection: Connection, seq: int, by: str, now: float) -> Paired:
    connection.execute("UPDATE pairing_requests SET state = 'approved' WHERE seq = ?", (seq,))
    row = connection.execute(
        """
        INSERT INTO people (platform, user_id, name, approved_by, approved_at)
        SELECT platform, user_id, name, ?, ? FROM pairing_requests WHERE seq = ?
        ON CONFLICT (platform, user_id) DO UPDATE
        SET name = excluded.name, approved_by = excluded.approved_by, approved_at = excluded.approved_at
        RETURNING platform, user_id, name, approved_by, approved_at
        """,
        (storable(by), now, seq),
    ).fetchone()
    return Paired(*row)


def _begin(connection: Connection, now: float) -> None:
    """Let one process at a time decide about codes, and move times in the future to now: the clock was set back."""
    # SQLite has one writer anyway. PostgreSQL makes others wait for a row that is being updated.
    connection.execute("UPDATE schema_migrations SET name = name WHERE name = 'people'")
    connection.execute(
        """
        UPDATE pairing_requests SET asked_at = :now, expires_at = :now + (expires_at - asked_at)
        WHERE asked_at > :now
        """,
        {"now": now},
    )


def _find(connection: Connection, digest: str, now: float) -> int | None:
    """Compare every code in constant time, so that the duration reveals nothing about a guess."""
    rows = connection.execute(
        "SELECT seq, code_hash FROM pairing_requests WHERE state = 'pending' AND expires_at > ?", (now,)
    ).fetchall()
    found = [seq for seq, known in rows if hmac.compare_digest(known, digest)]
    return found[0] if found else None


def _find_person(connection: Connection, platform: str, user_id: str, now: float) -> int | None:
    row = connection.execute(
        """
        SELECT seq FROM pairing_requests
        WHERE platform = ? AND user_id = ? AND state = 'pending' AND expires_at > ?
        """,
        (platform, user_id, now),
    ).fetchone()
    return int(row[0]) if row else None


def _refuse_while_locked(connection: Connection, now: float, limits: GuessingLimits) -> None:
    """Raise PairingLocked after too many wrong codes. Attempts during a lock do not count, or it would never end,
    nor do attempts with times in the future."""
    wrong, latest = connection.execute(
        "SELECT count(*), max(at) FROM pairing_failures WHERE at <= ?", (now,)
    ).fetchone()
    if wrong < limits.wrong_codes:
        return
    until = latest + limits.seconds
    if now < until:
        raise PairingLocked(f"({max(1, round((until - now) / 60))} min)", until=until)


def _record_wrong_code(connection: Connection, now: float, limits: GuessingLimits) -> None:
    """Count a wrong code, and delete those that no longer count."""
    connection.execute("DELETE FROM pairing_failures WHERE at <= ? OR at > ?", (now - limits.seconds, now))
    connection.execute("INSERT INTO pairing_failures (at) VALUES (?)", (now,))


def _deny(connection: Connection, digest: str, *, now: float) -> bool:
    return _deny_request(connection, _find(connection, digest, now))


def _deny_person(connection: Connection, platform: str, user_id: str, *, now: float) -> bool:
    return _deny_request(connection, _find_person(connection, platform, user_id, now))


def _deny_request(connection: Connection, seq: int | None) -> bool:
    if seq is None:
        return False
    connection.execute("UPDATE pairing_requests SET state = 'denied' WHERE seq = ?", (seq,))
    return True


def _revoke(connection: Connection, platform: str, user_id: str) -> bool:
    deleted = connection.execute("DELETE FROM people WHERE platform = ? AND user_id = ?", (platform, user_id))
    return deleted.rowcount > 0


def _pending(connection: Connection, *, now: float) -> list[PairingRequest]:
    rows = connection.execute(
        """
        SELECT platform, user_id, name, asked_at, expires_at FROM pairing_requests
        WHERE state = 'pending' AND expires_at > ? ORDER BY seq
        """,
        (now,),
    ).fetchall()
    return [PairingRequest(*row) for row in rows]


def _approved(connection: Connection) -> list[Paired]:
    rows = connection.execute(
        """
        SELECT platform, user_id, name, approved_by, approved_at FROM people
        ORDER BY platform, approved_at, user_id
        """
    ).fetchall()
    return [Paired(*row) for row in rows]


def _add_sign_out(connection: Connection, digest: str, *, until: float, now: float) -> None:
    connection.execute("DELETE FROM sign_outs WHERE until <= ?", (now,))
    connection.execute(
        """
        INSERT INTO sign_outs (digest, until) VALUES (?, ?)
        ON CONFLICT (digest) DO UPDATE SET until = excluded.until
        """,
        (digest, until),
    )


def _sign_outs(connection: Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM sign_outs")}


class SqlAccess(Part):
    is_approved = read(_is_approved)
    is_pending = read(_is_pending)
    pending = read(_pending)
    approved = read(_approved)
    sign_outs = read(_sign_outs)
    ask = write(_ask)
    approve = write(_approve)
    deny = write(_deny)
    approve_person = write(_approve_person)
    deny_person = write(_deny_person)
    revoke = write(_revoke)
    add_sign_out = write(_add_sign_out)
