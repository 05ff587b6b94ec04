"""The definition format: documents are parsed, checked, put into canonical form, compiled, compared and edited."""
