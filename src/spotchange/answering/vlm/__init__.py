"""Vision-language models as answerers: prompts, local checkpoints, OpenAI-compatible servers, a cache of replies."""
