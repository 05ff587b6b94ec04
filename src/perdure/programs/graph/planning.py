"""Planning: from the bytes of a definition to its plan, made once in a process and shared by all its executions."""

from collections import OrderedDict
from collections.abc import Mapping

import msgspec

from perdure.programs.format.compile import compiled
from perdure.programs.graph.plan import Plan

PLANS_MAX = 256

_plans: OrderedDict[str, Plan] = OrderedDict()


def planned(sha256: str, payloads: Mapping[str, bytes]) -> Plan:
    """The plan of the definition of this hash, whose bytes are among `payloads`, unless it is known already."""
    plan = _plans.get(sha256)
    if plan is None:
        plan = _plans[sha256] = Plan(compiled(msgspec.json.decode(payloads[sha256])))
        if len(_plans) > PLANS_MAX:
            _plans.popitem(last=False)
    else:
        _plans.move_to_end(sha256)
    return plan
