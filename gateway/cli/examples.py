"""Example command lines for `docs/cli.md`: some for each command, and each option in at least one."""

from __future__ import annotations

EXAMPLES: dict[str, list[str]] = {
    "hermes": [
        "hermes --version",
        "hermes --config ~/work.yaml run  # another configuration, for this once",
    ],
    "hermes run": ["hermes run"],
    "hermes chat": [
        "hermes chat",
        "hermes chat --chat shopping --new  # another chat, and a new session in it",
        'git diff | hermes chat -q "What does this change?"',
    ],
    "hermes sessions list": [
        "hermes sessions list --platform telegram --limit 10",
        "hermes sessions list --json",
    ],
    "hermes sessions show": ["hermes sessions show latest", "hermes sessions show conv_01h8 --json"],
    "hermes sessions search": [
        "hermes sessions search flight booking",
        "hermes sessions search Louvre --conversation latest --limit 5 --json",
    ],
    "hermes sessions export": [
        "hermes sessions export latest --format markdown",
        "hermes sessions export latest --format html -o talk.html --force",
    ],
    "hermes sessions lineage": [
        "hermes sessions lineage latest",
        "hermes sessions lineage latest --all",
        "hermes sessions lineage latest --json",
    ],
    "hermes sessions restore": [
        "hermes sessions restore latest  # undo the last compaction",
        "hermes sessions restore latest ses_01h8",
    ],
    "hermes doctor": [
        "hermes doctor",
        "hermes doctor --offline",
        "hermes doctor --repair",
        "hermes doctor --parked",
    ],
    "hermes status": [
        "hermes status  # stays up to date until Ctrl-C",
        "hermes status --once",
        "hermes status --json",
    ],
    "hermes usage": [
        "hermes usage",
        "hermes usage --days 30 --by model",
        "hermes usage --by person --json",
    ],
    "hermes logs": [
        "hermes logs -n 200 --level warning",
        "hermes logs -f --conversation conv_01h8",
        "hermes logs --json",
    ],
    "hermes backup": [
        "hermes backup",
        "hermes backup /mnt/stick/hermes.tar.gz --with-workspaces --force",
    ],
    "hermes restore": [
        "hermes restore ~/.hermes/backups/hermes-2026-11-17-031500.tar.gz",
        "hermes restore /mnt/stick/hermes.tar.gz --yes  # in a script",
    ],
    "hermes service install": [
        "hermes service install",
        "hermes service install --no-start",
        "hermes service install --print",
    ],
    "hermes service status": ["hermes service status"],
    "hermes service logs": ["hermes service logs -f", "hermes service logs -n 500"],
    "hermes service uninstall": ["hermes service uninstall"],
    "hermes export": [
        "hermes export -o everything.jsonl",
        "hermes export --format html -o pages/ --force  # a page each, and an index",
        "hermes export --person telegram:4711 --platform telegram --since 2026-11-01 --format markdown",
        "hermes export --conversation latest --format html -o latest.html",
    ],
    "hermes import": [
        "hermes import ~/old/state.db --dry-run",
        "hermes import ~/old/state.db",
        "hermes import ~/Downloads/ChatExport_2026-11-17/result.json --person telegram:4711",
        'hermes import general.json --assistant "Helper Bot"',
    ],
    "hermes setup": [
        "hermes setup",
        "hermes setup --only telegram --telegram-token your-token",
        "hermes setup --only discord --discord-token your-token",
        "hermes setup --only acme --token your-token",
        "hermes setup --non-interactive --offline --model anthropic/claude-sonnet-4-5 --api-key your-key",
        "hermes setup --model openai/llama3 --base-url http://127.0.0.1:11434/v1",
    ],
    "hermes pairing list": ["hermes pairing list", "hermes pairing list --json"],
    "hermes pairing people": ["hermes pairing people", "hermes pairing people --json"],
    "hermes pairing approve": ["hermes pairing approve K7QX2M9P"],
    "hermes pairing deny": ["hermes pairing deny K7QX2M9P"],
    "hermes pairing revoke": ["hermes pairing revoke telegram 4711"],
    "hermes config check": ["hermes config check"],
    "hermes config show": ["hermes config show"],
    "hermes plugins list": ["hermes plugins list", "hermes plugins list --json"],
    "hermes plugins enable": ["hermes plugins enable weather"],
    "hermes plugins disable": ["hermes plugins disable weather"],
    "hermes plugins use": ["hermes plugins use lcm"],
    "hermes completion": [
        "hermes completion bash > ~/.local/share/bash-completion/completions/hermes",
        "hermes completion fish > ~/.config/fish/completions/hermes.fish",
    ],
}
