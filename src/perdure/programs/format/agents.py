"""The part of the model of the format that is about agents: what stands behind the verbs `agent` and `agent_message`."""

from perdure.programs.format.shapes import Duration, Either, Field, Fields, Flag, ListOf, MapOf, Number, Schema, Text, Value, Whole

BUDGET = Fields(
    "budget",
    (
        Field("calls", Whole(1), "how many times the model is asked; 25 unless it says otherwise"),
        Field("tool_calls", Whole(1), "how many times it uses tools; ten for each of `calls` unless it says otherwise"),
        Field("tokens", Whole(1), "how many tokens, read and written"),
        Field("cost_usd", Number(0), "how many US dollars"),
        Field("wall", Duration(), "how long, waiting for people included"),
    ),
)
AGENT = Fields(
    "agent",
    (
        Field("prompt", Text(template=True), "what is to be done", required=True),
        Field("model", Text(template=True), "which of the deployment's models"),
        Field("system", Text(template=True), "what it is told first, and always"),
        Field("instructions", Text(template=True), "the same"),
        Field("tools", ListOf(Text(what="the name of a tool")), "the only tools that it may use: the definition's, kinds of steps, and Perdure's own"),
        Field("approve", ListOf(Text(what="the name of a tool")), "the tools before each use of which a person is asked"),
        Field("schema", Schema(), "of its answer; absent: the answer is text"),
        Field("context", Either((Flag(), ListOf(Value()), MapOf(Value())), "true, a list of references, or a mapping of them"), "earlier results that it sees"),
        Field("budget", BUDGET, "what it may use"),
        Field("temperature", Number(0), "how much chance there is in its answers"),
        Field("max_tokens", Whole(1), "how long each answer may be"),
        Field("repairs", Whole(0), "how often it may mend an answer that does not fit; once unless it says otherwise"),
    ),
    sugar="prompt",
)
AGENT_MESSAGE = Fields(
    "agent_message",
    (
        Field("content", Value(), "what is said"),
        Field("message", Value(), "the same"),
        Field("goal", Value(), "the same"),
        Field("interrupt", Flag(), "whether what the agent is asking its model is given up for it", default=False),
        Field("await_response", Flag(), "whether its answer is waited for, and is the result", default=False),
        Field("await_timeout_ms", Whole(1000), "how many milliseconds it is waited for; 5 minutes unless it says otherwise"),
    ),
    sugar="content",
)
