"""A judge for free text: which true differences a caption states, what it invents, and how far the judge is right."""
