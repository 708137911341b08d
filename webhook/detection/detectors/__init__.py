"""One detector a file; ALL lists them in the order in which they are asked."""

from typing import Final

from webhook.detection.detectors.condition_generation_missing import ConditionGenerationMissing
from webhook.detection.detectors.cross_object_loop import CrossObjectLoop
from webhook.detection.detectors.detector import Blame, Detector, DetectorRunner, Signal
from webhook.detection.detectors.foreign_status_writer import ForeignStatusWriter
from webhook.detection.detectors.generation_mismatch import GenerationMismatch
from webhook.detection.detectors.generation_storm import GenerationStorm
from webhook.detection.detectors.metadata_clobbered import MetadataClobbered
from webhook.detection.detectors.metadata_fight import MetadataFight
from webhook.detection.detectors.observed_generation_ahead import ObservedGenerationAhead
from webhook.detection.detectors.observed_generation_cleared import ObservedGenerationCleared
from webhook.detection.detectors.observed_generation_stalled import ObservedGenerationStalled
from webhook.detection.detectors.recreation import Recreation
from webhook.detection.detectors.refused_retry import RefusedRetry
from webhook.detection.detectors.spec_fight import SpecFight
from webhook.detection.detectors.status_clobbered import StatusClobbered
from webhook.detection.detectors.status_oscillation import StatusOscillation
from webhook.detection.detectors.status_write_storm import StatusWriteStorm
from webhook.detection.detectors.terminating_replicas_dropped import TerminatingReplicasDropped
from webhook.detection.detectors.unstable_mutation import UnstableMutation

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
    ForeignStatusWriter(),
    ConditionGenerationMissing(),
)

__all__ = ["ALL", "Blame", "Detector", "DetectorRunner", "Signal"]
