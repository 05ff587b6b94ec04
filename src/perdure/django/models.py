"""The models of `perdure.django`: none. Django sends its signal after a migration only to applications that have this module."""
