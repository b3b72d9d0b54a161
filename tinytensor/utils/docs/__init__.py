"""Documentation that is made from the source: texts for `help()`, the reference of the API, and type stubs."""
