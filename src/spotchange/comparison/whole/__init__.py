"""Changes of the whole image: transforms, light and colours, zoom."""
