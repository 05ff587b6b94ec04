"""The dialect of nested step lists."""
