"""The dashboard in a real browser. A package, since pytest ends what has this scope with a package alone."""
