"""When does metadata.generation move? The rules of every kind, as the API server has them.

>>> from genguard.generation import predict
>>> stored = {"metadata": {"generation": 3}, "spec": {"replicas": 1}}
>>> predict("UPDATE", "deployments.apps", {"spec": {"replicas": 2}}, stored).generation
4
"""

from genguard.generation.custom import CustomResource, CustomResources, StatusSubresource
from genguard.generation.library import predict
from genguard.generation.prediction import Cause, Prediction
from genguard.generation.strategy import Strategy, UnknownServerVersionError
from genguard.generation.table import GenerationTable, load_table

__all__ = [
    "Cause",
    "CustomResource",
    "CustomResources",
    "GenerationTable",
    "Prediction",
    "StatusSubresource",
    "Strategy",
    "UnknownServerVersionError",
    "load_table",
    "predict",
]
