"""Digests: a short description of a large text, shown in its place."""

from .detect import Digest, digest

__all__ = ["Digest", "digest"]
