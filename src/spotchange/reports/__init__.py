"""Results for people: tables, charts, pair views, JUnit."""
