"""The Penn Treebank tokenizer of the COCO caption tools."""
