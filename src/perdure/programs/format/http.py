"""What stands behind `http` in a step: a request, and what is made of its answer."""

from __future__ import annotations

from perdure.programs.format.shapes import Choice, Either, Field, Fields, Flag, ListOf, MapOf, Text, Value, Whole

METHODS = "GET|HEAD|OPTIONS|TRACE|PUT|DELETE|POST|PATCH"
FILE = Fields(
    "a file",
    (
        Field("content", Value(), "text, or bytes as {base64: …}", required=True),
        Field("filename", Text(template=True), "what it is called; absent: as the field is"),
        Field("type", Text(template=True), "its content type; absent: as its name says"),
    ),
    sugar="content",
)
HTTP = Fields(
    "http",
    (
        Field("url", Text(template=True), "where: http:// or https://, without user and password", required=True),
        Field(
            "method",
            Text(what=f"a method: {METHODS.replace('|', ', ')}", pattern=f"{METHODS}|{METHODS.lower()}", template=True),
            "GET unless it says otherwise",
        ),
        Field("headers", MapOf(Value(secrets=True)), "headers, a list for one that is repeated, null for none; secrets may stand in them"),
        Field("query", MapOf(Value()), "what stands behind the ?, besides what stands there already; a list for what is repeated, null for nothing"),
        Field("body", Value(), "what is sent: text as it is, bytes as {base64: …}, anything else as JSON"),
        Field("json", Value(), "what is sent, as JSON whatever it is"),
        Field("form", MapOf(Value()), "the fields of a form that is sent; a list for one that is repeated"),
        Field("files", MapOf(FILE), "files that are sent, with the fields of `form`, as multipart/form-data"),
        Field(
            "as",
            Choice(("json", "text", "csv", "lines", "xml", "base64")),
            "what the body of the answer is taken for (csv: a list of rows, lines: a list of texts); absent: JSON if its type says so and it is, else text "
            "if it is, else {base64: …}",
        ),
        Field(
            "accept",
            Either((Choice(("any",)), ListOf(Whole(400), sugar=True)), "any, or a list of statuses from 400 on"),
            "statuses from 400 on that are results as well, and no errors",
        ),
        Field("redirects", Whole(), "how many are followed at most; 0: one is the result", default=5),
        Field("max_bytes", Whole(1), "how long the body of the answer may be, unpacked; up to 16,000,000", default=10_000_000),
        Field("idempotency_key", Flag(), "whether what changes something is sent under the step's key, by which the receiver knows it again", default=True),
    ),
    sugar="url",
)
