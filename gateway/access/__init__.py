"""Who may talk to a bot: `gate.py` decides, `pairing.py` lets newcomers in, `people.py` is what both remember."""
