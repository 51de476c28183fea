"""The language of CLEVR-Change: vocabulary, writer, grammar, checker."""
