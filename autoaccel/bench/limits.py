"""Numbers by which measuring ends, or looks at later steps."""

from __future__ import annotations

AT_ONCE = 2
"""Turns of each side between two looks at what they show."""

MAX_REPEATED = 3
"""Times the least that say anything are taken in all, where fewer were undisturbed."""

MAX_TIMES_LONGER = 10
"""A turn may last, compared with planned, even if time is up: neighbours slow some down."""

MAX_TURNS = 40
"""Of a pair: more could not make its ratio better, as its processes' luck is larger by then."""

LATER_STEPS = (0, 100, 400)
"""Steps that both processes of a pair make before their first turn, until no trend is seen. Caches, allocators, clocks
and adaptive libraries settle within some ten or hundred steps; what changes only after thousands no proof can wait
for."""

MAX_LATER_SECONDS = 60.0
"""That both processes of a pair may take until then."""

POINTS = (6, 8, 10)
"""Updates are compared after these many steps: not after the first few, in which many networks change most, and three
times, because the median of three leaves out one that is not like the others."""

LATER_POINTS = (30, 40, 50)
"""The same where the first points show too large an error: five times as late, because a ResNet-34 with random
weights has settled then, whose error of bfloat16 is 0.3 of the noise after 10 steps and 0.001 after 40."""

BATCHES = 3
"""At each point: a variance needs some, and more make it no clearer than points do."""
