"""Tables of runs that differ in one thing."""
