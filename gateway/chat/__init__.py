"""Everything that chat platforms have in common. A platform's own package only speaks its service's language."""
