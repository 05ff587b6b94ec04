"""The kind `http`: one request, its answer as data. Nothing private is reached that the deployment does not allow, whatever URLs, names and redirects say."""
