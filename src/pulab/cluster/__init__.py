"""Work on a Ray cluster: connect to it, and spread the calls of a function over its machines.

Commands and functions of pulab use it where they are told to (``--ray``, ``backend="ray"``). Nothing else needs Ray.
"""

from pulab.cluster._connect import AUTO, LOCAL, connected, import_ray
from pulab.cluster._spread import RETRIES, Caller, perform, slots, spread

__all__ = ["AUTO", "LOCAL", "RETRIES", "Caller", "connected", "import_ray", "perform", "slots", "spread"]
