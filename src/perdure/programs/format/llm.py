"""The verb `llm` of the format: what a model is asked."""

from __future__ import annotations

from perdure.programs.format.shapes import Either, Field, Fields, Number, Schema, Text, Value, Whole

LLM = Fields(
    "llm",
    (
        Field("model", Text(template=True), "which, by its name in the deployment, or vendor:model; absent: that called default"),
        Field("prompt", Value(), "what is asked; what stands in `with` follows it"),
        Field("system", Value(), "what the model is told before"),
        Field("messages", Value(), "what was said before the prompt: a list of {role: user or assistant, text}"),
        Field("schema", Schema(), "of the answer, which then is data; what does not fit is asked for again"),
        Field("temperature", Either((Number(0), Value()), "a number from 0, or a reference"), "how freely it answers"),
        Field("max_tokens", Either((Whole(1), Value()), "a whole number from 1, or a reference"), "how long the answer may be"),
        Field("repairs", Whole(), "how often an answer that does not fit is asked for again", default=1),
    ),
    sugar="prompt",
)
