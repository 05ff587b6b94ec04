"""What comes of the examples of seed 001."""

from tests.definitions.graph.semantics.table import Skip, Voted
from tests.seeds.cases import ExampleCase, broken

SHELL = {"bash": lambda config, input=None: {"stdout": f"$ {config}", "exit_code": 0}}
LOOPED = """
    step[0]/~0/step[0].steps[0] step[0]/~1/step[0].steps[0]
    step[1]/~0/step[1].steps[0] step[1]/~0/step[1].steps[0]_set
    step[1]/~1/step[1].steps[0] step[1]/~1/step[1].steps[0]_set
    step[1]/~2/step[1].steps[0] step[1]/~2/step[1].steps[0]_set
    step[2]/~0/step[2].steps[0] step[2]/~0/step[2].steps[0]_set
    step[2]/~1/step[2].steps[0] step[2]/~1/step[2].steps[0]_set
"""

CASES = [
    ExampleCase(
        "one after the other, and the command is a command wherever it stands",
        "001_step_types",
        does={**SHELL, "agent": lambda config, input=None: config["prompt"], "agent_message": lambda config, input=None: "sent"},
        script=(Skip("1h"), Voted("step[5]")),
        ran="step[0] step[1] step[2] step[3] step[4] step[5]",
        result={"said": {"stdout": "$ echo hello", "exit_code": 0}},
    ),
    ExampleCase(
        "somebody denies it: cancelled, says by whom",
        "001_step_types",
        does=SHELL,
        script=(Skip("1h"), Voted("step[5]", approve=False, comment="not today")),
        cancelled="step[5] was rejected by ada: not today",
    ),
    ExampleCase(
        "beta: then",
        "001_conditional",
        does={"FAILS": broken},
        ran="gate gate/step[0].then[0] gate/step[0].then[0]_set step[1] step[1]/step[1].then[0] step[2]",
        result={"chosen": {"of": "then"}},
    ),
    ExampleCase("another stage: else", "001_conditional", {"stage": "stable"}, does={"FAILS": broken}, result={"chosen": {"of": "else"}}),
    ExampleCase("both at once", "001_parallel", takes={"ECHO": "1s"}, took=2, at_once=2, result={"one": {"x": 1}, "two": {"x": 2}}),
    ExampleCase(
        "each kind of loop, and the last does nothing",
        "001_loops",
        does={"FAILS": broken},
        ran=LOOPED,
        skipped="step[3]",
        result={"turned": {"turn": 2}, "counted": {"turn": 1}},
    ),
    ExampleCase(
        "no times at all", "001_loops", {"times": 0}, does={"FAILS": broken}, skipped="step[2] step[3]", result={"turned": {"turn": 2}, "counted": None}
    ),
    ExampleCase(
        "the child is started with its inputs",
        "001_subworkflow",
        calls=("child@1.0.0",),
        result={"result": {"x": 1}},
        children=(("child", "completed", {"x": 1}),),
    ),
    ExampleCase("there is no child of that version", "001_subworkflow", calls=("child@2.0.0",), failed="there is no version ^1 of child; there are 2.0.0"),
    ExampleCase("the row of the table runs what it holds", "001_row", does=SHELL, ran="step[0]", result={"stdout": "$ true", "exit_code": 0}),
    ExampleCase("with what its trigger maps", "001_triggers", {"branch": "dev"}, result={"branch": "dev"}),
    ExampleCase("by hand, with its defaults", "001_triggers", result={"branch": "main"}),
    ExampleCase("nobody for a day: cancelled", "001_single_step", took=86400, cancelled="step[0] was rejected"),
    ExampleCase("approved in time", "001_single_step", script=(Skip("23h"), Voted("step[0]")), ran="step[0]"),
]
