"""One detector, or one family, a file; ALL lists them in the order in which they are asked."""

from typing import Final

from genguard.detection.detectors.clobbered import (
    MetadataClobbered,
    ObservedGenerationCleared,
    StatusClobbered,
    TerminatingReplicasDropped,
)
from genguard.detection.detectors.cross_object_loop import CrossObjectLoop
from genguard.detection.detectors.detector import Blame, Detector, DetectorRunner, Signal
from genguard.detection.detectors.fight import MetadataFight, SpecFight, StatusOscillation
from genguard.detection.detectors.generation_numbers import (
    ConditionGenerationMissing,
    ForeignStatusWriter,
    GenerationMismatch,
    ObservedGenerationAhead,
    ObservedGenerationDishonest,
    ObservedGenerationStalled,
)
from genguard.detection.detectors.repeated import (
    GenerationStorm,
    Recreation,
    RefusedRetry,
    StatusWriteStorm,
    WriteNotKept,
)
from genguard.detection.detectors.unstable_mutation import UnstableMutation

ALL: Final[tuple[Detector, ...]] = (
    ObservedGenerationCleared(),
    StatusClobbered(),
    ObservedGenerationStalled(),
    ObservedGenerationAhead(),
    StatusOscillation(),
    StatusWriteStorm(),
    GenerationStorm(),
    SpecFight(),
    MetadataFight(),
    MetadataClobbered(),
    UnstableMutation(),
    GenerationMismatch(),
    TerminatingReplicasDropped(),
    CrossObjectLoop(),
    Recreation(),
    RefusedRetry(),
    WriteNotKept(),
    ForeignStatusWriter(),
    ConditionGenerationMissing(),
    ObservedGenerationDishonest(),
)

__all__ = ["ALL", "Blame", "Detector", "DetectorRunner", "Signal"]
