"""The one table of what a finding can be, and the project's change type each corresponds to."""

from __future__ import annotations

# kind -> what it says. The order is that of importance: the summary names the first ones first.
KINDS: dict[str, str] = {
    "blank": "one of the pictures is a single flat colour",
    "everything": "the pictures have nothing in common",
    "size": "the pictures differ in width or height",
    "scaled": "the same picture at another size",
    "cropped": "one picture is a part of the other",
    "mirrored": "the same picture, mirrored",
    "rotated": "the same picture, turned",
    "zoomed": "the same content, nearer or further",
    "shifted": "the whole content moved",
    "camera": "photos: taken from another place",
    "misaligned": "photos: no common view was found, so the comparison is uncertain",
    "grey": "the colours are gone",
    "coloured": "a grey picture has colours now",
    "inverted": "light and dark are exchanged",
    "brightness": "everything is brighter or darker",
    "contrast": "everything has more or less contrast",
    "faded": "everything is nearer to one colour, as under a veil",
    "tinted": "all colours lean another way",
    "transparency": "the same colours, differently transparent",
    "inserted": "rows or columns were inserted and the rest moved on",
    "removed": "rows or columns were removed and the rest moved up",
    "appeared": "something is there now where flat background was",
    "disappeared": "flat background is there now where something was",
    "moved": "the same content at another place",
    "swapped": "two parts exchanged places",
    "resized": "the same content, larger or smaller",
    "text": "text reads differently",
    "restyled": "the same text in another weight or shape",
    "recoloured": "the same shapes in another colour",
    "replaced": "other content at the same place",
    "noise": "differences too slight to see, spread over the picture",
}

# The words of the captioning world, where they correspond; everything else is a change of its own.
CHANGE_TYPE_OF: dict[str, str] = {
    "inserted": "add",
    "appeared": "add",
    "removed": "drop",
    "disappeared": "drop",
    "moved": "move",
    "swapped": "move",
    "shifted": "move",
    "recoloured": "color",
    "grey": "color",
    "coloured": "color",
    "inverted": "color",
    "tinted": "color",
    "text": "texture",
    "restyled": "texture",
    "replaced": "texture",
}
