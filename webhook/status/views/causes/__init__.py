"""Why the tools disagree, as a table: the first cause that holds and explains one of them counts.

Source: the rules of the three tools, cited in their own modules.
"""

from typing import Final

from webhook.status.views.causes.cause import Cause
from webhook.status.views.causes.general import AFTER, BEFORE
from webhook.status.views.causes.others import OTHERS
from webhook.status.views.causes.workloads import WORKLOADS

CAUSES: Final[tuple[Cause, ...]] = (*BEFORE, *WORKLOADS, *OTHERS, *AFTER)
