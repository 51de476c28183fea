"""Which rows and parts of a page are which: inserted, removed, moved, exchanged."""
