"""The application API: the composition root, and the only package that names a concrete storage."""
