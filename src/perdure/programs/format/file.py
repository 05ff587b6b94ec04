"""What stands behind `file` in a step: a file below the directory that the deployment allows, and what is done with it."""

from __future__ import annotations

from perdure.programs.format.shapes import Choice, Field, Fields, Text, Value, Whole

FILE = Fields(
    "file",
    (
        Field("read", Text(template=True), "the path of a file whose content is the result"),
        Field("write", Text(template=True), "the path of a file whose place the content takes; directories above it are made"),
        Field("append", Text(template=True), "the path of a file to whose end the content is added; it is made if there is none"),
        Field("list", Text(template=True), "the path of a directory whose entries are the result; . is the one that is allowed"),
        Field("content", Value(), "what is written; beside `write` and `append`, unless it stands in `with`"),
        Field(
            "as",
            Choice(("text", "json", "csv", "lines", "xml", "base64")),
            "what the content is taken for; absent: as the name ends (.json, .csv, .xml), else text. XML can only be read",
        ),
        Field("max_bytes", Whole(1), "how long a file may be that is read; up to 16,000,000", default=10_000_000),
    ),
    sugar="read",
    one_of=("read", "write", "append", "list"),
)
