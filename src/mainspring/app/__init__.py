"""The application's face: the one composition root, and the only room that names a concrete storage."""
