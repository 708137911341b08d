"""kstatus, the reading of status that Flux, kpt and other appliers share."""

from webhook.status.views.kstatus.compute import kstatus
from webhook.status.views.kstatus.verdict import Kstatus

__all__ = ["Kstatus", "kstatus"]
