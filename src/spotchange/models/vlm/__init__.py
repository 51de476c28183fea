"""Vision-language models of transformers as they are: loading, chat turns, adapters."""
