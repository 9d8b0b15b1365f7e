"""A turn as it is seen in a chat.

`Scene` turns events into blocks: what should be visible, in order, without knowing when or how well that works.
`Performer` makes it so, one call at a time, and tells the blocks what came of each call.
"""
