"""Access control: `gate.py` decides who may talk to a bot, `pairing.py` admits newcomers by a code."""
