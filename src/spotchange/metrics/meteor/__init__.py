"""METEOR 1.5, digit for digit as the Java program, without Java."""
