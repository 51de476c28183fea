"""Photos: whether the content changed, camera and light taken out and reported."""
