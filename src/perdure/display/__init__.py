"""Displays executions in notebooks and at Python's prompt: as HTML, and as plain text.

The trees and tables are those of the command line (`perdure.cli.execution_views`); here they become HTML. `execution_tree` is what handles give, and
`ipython_formats` tells IPython how to display what has no methods for that. Nothing here imports IPython.
"""
