"""The failures of an operation before its request is sent. The request itself fails as one of the kind `http` does.

Fatal                 another attempt would be useless
├── DocumentRefused    the document can't be read, or is not what OpenAPI says
├── OperationRefused   the document has no such operation, or the parameters do not fit it
└── AuthRefused        the auth profile is not known here, or is not for this host
"""

from __future__ import annotations

from perdure.core.errors import Fatal


class DocumentRefused(Fatal):
    """An OpenAPI document can't be read or used; `where` is the JSON pointer of the problem in it (empty: the whole document)."""

    code = "document_refused"

    def __init__(self, document: str, where: str, what: str) -> None:
        super().__init__(f"the OpenAPI document {document}{f' at {where}' if where else ''}: {what}")
        self.where, self.what = where, what


class OperationRefused(Fatal):
    """The step does not fit the document: the operation is unknown, or a parameter is unknown, missing, or has a value that does not fit. Nothing was sent.

    `where` is the JSON pointer of the problem in the config of the step.
    """

    code = "operation_refused"

    def __init__(self, where: str, what: str) -> None:
        super().__init__(f"openapi{where.replace('/', '.')}: {what}")
        self.where, self.what = where, what


class AuthRefused(Fatal):
    """The auth profile of a step is not known in this process, or does not name the host to which the request would go. Nothing was sent."""

    code = "auth_refused"
