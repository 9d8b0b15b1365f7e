"""Conversations that took place elsewhere, taken in: each file of this folder reads one kind of export.

What is taken in lives under the platform `import`, which no bot and no page has, so that it never meets a live chat.
Its ids are made from the ids it had before: taken in twice, nothing is there twice.
"""
