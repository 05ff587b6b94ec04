"""The kind `http`: one request, and its response as data. Private addresses are reached only if the deployment allows them, also by redirects."""
