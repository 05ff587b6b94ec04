"""One shop under three web frameworks: orders, the import of a file with progress, and approvals by a link."""
