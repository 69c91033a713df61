"""What is measured next: the sampler's proposal, as long as it may be measured."""

from __future__ import annotations

from autoaccel.records.settings import Settings
from autoaccel.search.gradient import KnowledgeGradient, Suggestion, SuggestionBounds
from autoaccel.search.study import SearchStudy

_MAX_REFUSED = 10  # proposals of a sampler in a row that may not be measured: then what pays most is tried instead


def propose(
    study: SearchStudy, gradient: KnowledgeGradient, suggestion: Suggestion, bounds: SuggestionBounds
) -> Settings:
    """Return what the study's sampler proposes; what pays most if it proposes nothing that may be measured.

    Args:
        study: Told of each proposal that is refused, and why.
        gradient: Says what may be measured.
        suggestion: What pays most.
        bounds: Of what may be measured now.
    """
    for _ in range(_MAX_REFUSED):
        settings = study.propose()
        if settings == suggestion.settings:
            return suggestion.settings
        why = gradient.why_not(settings, bounds)
        if why is None:
            return settings
        study.refuse(why)
    return suggestion.settings
