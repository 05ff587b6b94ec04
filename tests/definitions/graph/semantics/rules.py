"""Rules: where a step leads, by conditions in the order in which they are written, or by its own choice from a closed list."""

from tests.definitions.graph.semantics.table import Row

BY_SCORE = """
order: ports
steps:
  - id: a
    tool: SAY
    next:
      - {when: {ref: "@self.score", gte: 90}, to: top}
      - {when: {ref: "@self.score", gte: 50}, to: [good, note]}
      - {to: rest}
  - {id: top, tool: SAY}
  - {id: good, tool: SAY}
  - {id: note, tool: SAY}
  - {id: rest, tool: SAY}
"""

CHOOSE = """
order: ports
steps:
  - {id: route, agent: "Which team?", with: "@input", next: {choose: [ops, fraud], default: rest}}
  - {id: ops, tool: SAY}
  - {id: fraud, tool: SAY}
  - {id: rest, tool: SAY}
"""

ROWS = [
    Row("the first rule that holds is taken, even if others would hold too", BY_SCORE, answers={"a": [{"score": 95}]}, ran="a top", crashes=True),
    Row("a rule may lead to several steps", BY_SCORE, answers={"a": [{"score": 60}]}, ran="a good note"),
    Row("a rule without when holds always", BY_SCORE, answers={"a": [{"score": 3}]}, ran="a rest"),
    Row(
        "if no rule holds, the way ends",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: 1}, next: [{when: {ref: "@self", gt: 5}, to: b}]}
          - {id: b, tool: SAY}
        output: over
        """,
        ran="a",
        result="over",
    ),
    Row(
        "a rule that can't be judged fails the step",
        """
        order: ports
        steps:
          - {id: a, tool: SAY, with: {value: text}, next: [{when: {ref: "@self", gt: 5}, to: b}, {to: c}]}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY}
        """,
        failed="compares",
        ran="a",
    ),
    Row(
        "a rule reads other steps, and what was set",
        """
        order: ports
        vars: {limit: 3}
        steps:
          - {id: first, tool: SAY, with: {value: 2}, next: s}
          - {id: s, set: {limit: 1}, next: [{when: {ref: "@first", gt: "@vars.limit"}, to: b}, {to: c}]}
          - {id: b, tool: SAY}
          - {id: c, tool: SAY}
        """,
        ran="first s b",
    ),
    Row(
        "rules say where to go on from success only: a skipped step takes none of them",
        """
        order: ports
        steps:
          - {id: a, when: {expr: "false"}, tool: SAY, next: [{to: b}]}
          - {id: b, tool: SAY}
        output: over
        """,
        skipped="a",
        ran="",
        result="over",
    ),
    Row("an agent chooses from a closed list", CHOOSE.replace("order:", "input: {next: {}}\norder:"), {"next": "fraud"}, ran="route fraud"),
    Row("it may choose several", CHOOSE.replace("order:", "input: {next: {}}\norder:"), {"next": ["fraud", "ops"]}, ran="route ops fraud"),
    Row("if it chooses none, the default is taken", CHOOSE.replace("order:", "input: {next: {}}\norder:"), {"next": []}, ran="route rest"),
    Row(
        "a choice outside of the list fails the step, and the error names what is allowed",
        CHOOSE.replace("order:", "input: {next: {}}\norder:"),
        {"next": ["ops", "payout"]},
        failed="unauthorized: route chose the step 'payout', which is not allowed; choose one of ops, fraud",
        ran="route",
    ),
    Row(
        "an unauthorized choice may be caught like any failure",
        CHOOSE.replace("order:", "input: {next: {}}\norder:").replace("next: {choose", "on_error: go_on, next: {choose"),
        {"next": "payout"},
        ran="route rest",
    ),
    Row(
        "true and false lead by their ports",
        """
        order: ports
        input: {n: {type: integer}}
        steps:
          - {id: t, test: {ref: "@input.n", gt: 3}, next: {"true": a, "false": b}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY}
        """,
        {"n": 1},
        ran="t b",
    ),
    Row(
        "an if leads by its ports too, once its branch is done",
        """
        order: ports
        steps:
          - {id: i, if: {expr: "true"}, then: [{id: x, tool: SAY}], next: {"true": a, "false": b}}
          - {id: a, tool: SAY}
          - {id: b, tool: SAY}
        """,
        ran="i i/x a",
    ),
]
