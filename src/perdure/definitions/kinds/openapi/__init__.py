"""Operations of APIs that OpenAPI documents describe: the document, the request of an operation, its response, and who is authorized."""
