"""Notifications: rules say what people are told of and how, and each notification is an execution, so that it is attempted again until it arrives."""
