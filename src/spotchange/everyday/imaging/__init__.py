"""From a scene to pixels: compositing, light, blur, noise."""
