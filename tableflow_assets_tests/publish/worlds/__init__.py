"""The catalogs of the behaviour suite, each with what can happen to it."""
