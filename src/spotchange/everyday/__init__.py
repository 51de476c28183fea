"""The second world: everyday things on photos, rooms and table tops, with one change, some nuisance, or none."""
