"""One detector, or one family, a file; ALL lists them in the order in which they are asked."""

from typing import Final

from genguard.detection.detectors.condition_generation_missing import ConditionGenerationMissing
from genguard.detection.detectors.cross_object_loop import CrossObjectLoop
from genguard.detection.detectors.detector import Blame, Detector, DetectorRunner, Signal
from genguard.detection.detectors.fight import MetadataFight, SpecFight, StatusOscillation
from genguard.detection.detectors.foreign_status_writer import ForeignStatusWriter
from genguard.detection.detectors.generation_mismatch import GenerationMismatch
from genguard.detection.detectors.generation_storm import GenerationStorm
from genguard.detection.detectors.metadata_clobbered import MetadataClobbered
from genguard.detection.detectors.observed_generation_ahead import ObservedGenerationAhead
from genguard.detection.detectors.observed_generation_cleared import ObservedGenerationCleared
from genguard.detection.detectors.observed_generation_dishonest import ObservedGenerationDishonest
from genguard.detection.detectors.observed_generation_stalled import ObservedGenerationStalled
from genguard.detection.detectors.recreation import Recreation
from genguard.detection.detectors.refused_retry import RefusedRetry
from genguard.detection.detectors.status_clobbered import StatusClobbered
from genguard.detection.detectors.status_write_storm import StatusWriteStorm
from genguard.detection.detectors.terminating_replicas_dropped import TerminatingReplicasDropped
from genguard.detection.detectors.unstable_mutation import UnstableMutation
from genguard.detection.detectors.write_not_kept import WriteNotKept

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
