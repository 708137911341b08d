"""Argo CD's health of a resource, as its engine assesses it without Lua checks."""

from webhook.status.views.argo.assess import argo
from webhook.status.views.argo.health import ArgoHealth

__all__ = ["ArgoHealth", "argo"]
