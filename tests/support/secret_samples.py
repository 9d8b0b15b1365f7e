"""Sample secrets for every redaction rule."""

from __future__ import annotations

HEX = "3f9a7c1e5b8d2046"


UPPER = "K7QWX3ZB9RTM5VYH"


MIXED = "aB3dE6gH1jK4mN7pQ9sT2vX5"


SENTENCE = "as said: {} and so on"


SHAPES: dict[str, list[str]] = {
    "private key in base64": ["LS0tLS1CRUdJTiB" + "SU0EgUFJJVkFURSBLRVktLS0tLQpNSUlF"],
    "OpenAI, Anthropic or OpenRouter key": ["sk-" + MIXED, "sk-proj-" + MIXED + "-" + MIXED, "sk-ant-api03-" + MIXED],
    "Stripe key": [f"{kind}_{mode}_" + MIXED for kind in ("sk", "rk") for mode in ("live", "test")]
    + ["whsec_" + MIXED],
    "GitHub token": [f"gh{kind}_" + (MIXED + UPPER)[:36] for kind in "pousr"]
    + ["github_pat_11ABCDEFG0" + MIXED + "_" + MIXED + MIXED],
    "GitLab token": ["glpat-" + MIXED[:20]],
    "Slack token": [f"xox{kind}-123456789012-" + MIXED for kind in "abeoprs"] + ["xapp-1-A0B1C2D3-123456-" + HEX],
    "Twilio key": ["AC" + HEX * 2, "SK" + HEX * 2],
    "AWS access key": ["AKIA" + UPPER, "ASIA" + UPPER],
    "Google key": ["AIza" + (MIXED * 2)[:35], "GOCSPX-" + (MIXED * 2)[:28], "ya29." + MIXED * 3],
    "Hugging Face, Replicate or npm token": [
        prefix + (MIXED * 2)[:36] for prefix in ("hf_", "r8_", "npm_")
    ],
    "Groq, xAI, Perplexity or Nvidia key": [prefix + MIXED * 2 for prefix in ("gsk_", "xai-", "pplx-", "nvapi-")],
    "PyPI token": ["pypi-" + "AgEIcHlwaS5vcmc" + MIXED * 4],
    "Tavily key": ["tvly-" + MIXED, "tvly-dev-" + MIXED],
    "DigitalOcean token": [f"do{kind}_v1_" + HEX * 4 for kind in "por"],
    "SendGrid key": ["SG." + MIXED[:22] + "." + (MIXED * 2)[:43]],
    "Shopify token": [f"shp{kind}_" + HEX * 2 for kind in ("at", "ca", "pa", "ss")],
    "Vault, Docker, Grafana or Sentry token": [
        *("hvs." + MIXED * 4, "dckr_pat_" + MIXED, "glsa_" + MIXED + "_" + HEX[:8], "sntrys_" + MIXED * 3)
    ],
    "Notion or Linear token": ["ntn_" + MIXED * 2, "lin_api_" + (MIXED * 2)[:40]],
    "Atlassian token": ["ATATT3x" + MIXED * 7 + "=" + HEX[:8].upper()],
    "age key": ["AGE-SECRET-KEY-1" + (UPPER * 4)[:58]],
    "JSON web token": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0." + (MIXED * 2)[:43]],
    "Telegram bot token": ["123456789:AA" + (MIXED * 2)[:33], "7123456789%3AAA" + (MIXED * 2)[:33]],
    "Discord bot token": ["MTk4NjIyNDgzNDcxOTI1MjQ4" + ".Cl2FMQ." + (MIXED * 2)[:38]],
    "GitLabTokenDetector": [
        *(f"gl{kind}-" + MIXED[:20] for kind in ("pat", "dt", "ft", "rt", "soat")),
        *("glimt-" + (MIXED * 2)[:25], "glptt-" + (MIXED * 2)[:40], "gloas-" + (MIXED * 3)[:64]),
        "glagent-" + (MIXED * 3)[:50],
        "glcbt-1a_" + MIXED[:20],
        "GR1348941" + MIXED[:20],
    ],
    "MailchimpDetector": [HEX * 2 + "-us12"],
    "PypiTokenDetector": ["pypi-" + "AgEIcHlwaS5vcmc" + MIXED * 4],
    "SlackDetector": ["xoxb-123456789012-123456789012-" + MIXED],
    "SquareOAuthDetector": ["sq0csp-" + (MIXED * 2)[:43]],
    "StripeDetector": ["sk_live_" + MIXED, "rk_live_" + MIXED],
}  # fmt: skip
"""By the name of the rule: the secret is all of the sample."""


PASSWORD = "hunter2-Gr33n!"


NAMED: dict[str, list[tuple[str, str]]] = {
    "private key": [
        ("-----BEGIN " + "EC PRIVATE KEY-----\n{}\n-----END EC PRIVATE KEY-----", "MHcCAQEEIIrYSSNQFaA2" + MIXED * 2),
        ("-----BEGIN " + "OPENSSH PRIVATE KEY-----\n{}\n", "b3BlbnNzaC1rZXktdjEA" + MIXED * 2),
        ("{}\n-----END " + "PRIVATE KEY-----", "MHcCAQEEIIrYSSNQFaA2" + MIXED * 2),
    ],
    "Telegram bot address": [("GET https://api.telegram.org/bot{}/getMe", "123456:AAF"), ("/bot{}/x", "1%3AAAF")],
    "Discord webhook": [("https://discord.com/api/webhooks/123456789/{} failed", MIXED * 2)],
    "credentials in a URL": [("postgres://ada:{}@db.example.org/main", "lovelace-1815")],
    "token in a URL": [("https://{}@example.org/x.git", HEX + HEX[:8]), ("https://{}:x-oauth@example.org/", HEX * 2)],
    "authorization header": [
        ("Authorization: Basic {}", "dXNlcjpwYXNzd29yZA=="),
        ('"authorization": "Token {}"', HEX),
        ("authorization={}", HEX),
    ],
    "bearer token": [("curl -H 'X: Bearer {}'", MIXED)],
    "cookie": [("Cookie: {}", "session=" + MIXED + "; theme=dark"), ("Set-Cookie: {}; Path=/", "id=" + HEX)],
    "value called a password": [
        (f"{name}{sign}{{}}\n", PASSWORD)
        for name in ("password", "passwd", "passphrase", "Passwort", "DB_PWD")
        for sign in ("=", ": ", " := ", " => ")
    ]
    + [('{{"db_password": "{}"}}', PASSWORD), ("passphrase='{}'", PASSWORD)],
    "value called a key or token": [
        (f"{name} = {{}}", MIXED)
        for name in (
            *("client_secret", "token", "x_auth", "api_key", "apikey", "access-key", "account_key", "auth_key"),
            *("encryption_key", "private-key", "secret_key", "signing_key", "Api-Key"),
        )
    ],
    "key of Cloudant or SoftLayer": [
        ("cloudant_password = {}", "abcdefghijklmnopqrstuvwx"),
        ("softlayer_api_key: {}", HEX * 4),
        ("https://api.softlayer.com/soap/v3/{}", HEX * 4),
    ],
    "option of a command": [
        (f"tool --{name}{sign}{{}} run", "correct7horse")
        for name in ("password", "passwd", "passphrase", "token", "secret", "api-key")
        for sign in (" ", "=")
    ],
    "variable of an environment": [
        (f"A=1\n{before}{name}={{}}\n", "correct7horse")
        for before in ("", "export ", "set ", "- ", "ENV ")
        for name in ("DB_PASSWORD", "X_PASSWD", "GPG_PASSPHRASE", "SESSION_SECRET", "GH_TOKEN", "SIGNING_KEY")
    ],
    "line of a .netrc": [("machine example.org login ada password {}", "geheim")],
    "password told in a sentence": [
        (f"{said} {{}}, thanks", "hunter2")
        for said in (
            *("My password is", "the passphrase is", "Das Passwort ist", "Kennwort lautet"),
            *("La contraseña es", "le mot de passe est"),
        )
    ],
    "AzureStorageKeyDetector": [("DefaultEndpointsProtocol=https;AccountKey={}", (MIXED * 4)[:86] + "==")],
    "SlackDetector": [("https://{}", "hooks.slack.com/services/T0FAKE000/B0FAKE000/" + MIXED)],
}  # fmt: skip
"""By rule name: the text around the secret, and the secret."""


SAMPLES = [
    *((what, SENTENCE, secret) for what, secrets in SHAPES.items() for secret in secrets),
    *((what, around, secret) for what, samples in NAMED.items() for around, secret in samples),
]
