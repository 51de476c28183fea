"""The Hugging Face hub: Auto classes of transformers, models pushed and pulled, their cards."""
