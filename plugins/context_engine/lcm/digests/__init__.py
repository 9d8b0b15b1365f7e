"""Digests: a short description of a large text, shown in its call."""

from .detect import Digest, digest

__all__ = ["Digest", "digest"]
