"""Local vision-language models: any transformers image-text-to-text checkpoint whose chat template takes images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from spotchange.answering.vlm.asking import Question, RawReply
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import MissingExtraError, ModelError, ReplyError
from spotchange.models.weights.transformers_import import import_transformers


class LocalModel:
    """`Asked`, on this machine."""

    def __init__(self, name: str, settings: VlmSettings, *, device: str) -> None:
        self.name = name
        self._settings = settings
        self._model, self._processor = _load(name, settings, device)

    @property
    def signature(self) -> str:
        settings = self._settings
        parts = [self.name, settings.revision or "", settings.adapter or "", settings.dtype]
        return "+".join([*(part for part in parts if part), f"max{settings.max_new_tokens}", "greedy"])

    def ask(self, questions: Sequence[Question]) -> list[RawReply | Exception]:
        """In batches; a batch that fails is asked one by one, so that one bad pair costs no other its answer."""
        outcomes: list[RawReply | Exception] = []
        for start in range(0, len(questions), self._settings.batch_size):
            batch = questions[start : start + self._settings.batch_size]
            try:
                outcomes += self._generate(batch)
            except (RuntimeError, ValueError, IndexError, TypeError) as error:
                if len(batch) == 1:
                    outcomes.append(
                        ReplyError(f"{self.name} failed on this pair: {' '.join(str(error).split())[:200]}")
                    )
                else:
                    outcomes += [outcome for question in batch for outcome in self.ask([question])]
        return outcomes

    def _generate(self, questions: Sequence[Question]) -> list[RawReply]:
        import torch

        inputs = self._inputs(questions)
        length = inputs["input_ids"].shape[1]
        if questions[0].yes_or_no:
            with torch.inference_mode():
                logits = self._model(**inputs).logits[:, -1].float()
            return [self._yes_or_no(row, length) for row in logits]
        with torch.inference_mode():
            ids = self._model.generate(**inputs, max_new_tokens=self._settings.max_new_tokens, do_sample=False)
        tokenizer = self._processor.tokenizer
        replies = ids[:, length:]
        return [
            RawReply(
                text=tokenizer.decode(row, skip_special_tokens=True),
                prompt_tokens=int(mask.sum()),
                reply_tokens=int((row != (tokenizer.pad_token_id or -1)).sum()),
            )
            for row, mask in zip(replies, inputs["attention_mask"], strict=True)
        ]

    def _inputs(self, questions: Sequence[Question]) -> Any:
        texts = [
            self._processor.apply_chat_template(_messages(question), add_generation_prompt=True, tokenize=False)
            for question in questions
        ]
        images = [[image.pil for pair in q.pairs for image in (pair.before, pair.after)] for q in questions]
        inputs = self._processor(text=texts, images=images, return_tensors="pt", padding=True)
        return inputs.to(self._model.device)

    def _yes_or_no(self, logits: Any, prompt_tokens: int) -> RawReply:
        """P(yes) against P(no) over the ways a tokenizer writes them."""
        import torch

        tokenizer = self._processor.tokenizer
        log_probabilities = torch.log_softmax(logits, dim=-1)
        mass = {}
        for word in ("yes", "no"):
            forms = {form for base in (word, word.capitalize()) for form in (base, f" {base}")}
            ids = {encoded[0] for form in forms if (encoded := tokenizer.encode(form, add_special_tokens=False))}
            mass[word] = float(torch.logsumexp(log_probabilities[sorted(ids)], dim=0).exp()) if ids else 0.0
        total = mass["yes"] + mass["no"]
        text = "yes" if mass["yes"] >= mass["no"] else "no"
        probability = mass["yes"] / total if total > 0 else None
        return RawReply(text=text, prompt_tokens=prompt_tokens, reply_tokens=1, yes_probability=probability)


def _messages(question: Question) -> list[dict[str, Any]]:
    images = [{"type": "image"}, {"type": "image"}]
    turn = {"role": "user", "content": [*images, {"type": "text", "text": question.text}]}
    messages: list[dict[str, Any]] = [{"role": "system", "content": [{"type": "text", "text": question.prompt.system}]}]
    for example in question.examples:
        messages += [turn, {"role": "assistant", "content": [{"type": "text", "text": example.reply}]}]
    return [*messages, turn]


def _load(name: str, settings: VlmSettings, device: str) -> tuple[Any, Any]:
    """Model and processor; weights from safetensors only, remote code only where the user trusts it."""
    try:
        library = import_transformers()
    except ImportError:
        raise MissingExtraError("a local vision-language model", extra="vlm") from None
    folder = Path(name)
    if folder.is_dir() and not list(folder.glob("*.safetensors")):
        raise ModelError(f"{name} has no safetensors weights", hint="other formats can run code and are not loaded")
    options: dict[str, Any] = {"revision": settings.revision, "trust_remote_code": settings.trust_remote_code}
    options = {key: value for key, value in options.items() if value is not None}
    try:
        processor = library.AutoProcessor.from_pretrained(name, **options)
        model = library.AutoModelForImageTextToText.from_pretrained(
            name, dtype=settings.dtype, device_map=settings.device_map, use_safetensors=True, **options
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"cannot load the vision-language model {name}: {' '.join(str(error).split())[:300]}"
        ) from error
    if settings.adapter is not None:
        model = _with_adapter(model, settings.adapter)
    if settings.device_map is None:
        model = model.to(device)
    if getattr(processor, "chat_template", None) is None and processor.tokenizer.chat_template is None:
        raise ModelError(f"{name} has no chat template")
    processor.tokenizer.padding_side = "left"  # replies begin where prompts end
    return model.eval(), processor


def _with_adapter(model: Any, adapter: str) -> Any:
    try:
        from peft import PeftModel
    except ImportError:
        raise MissingExtraError("a LoRA adapter", extra="vlm") from None
    return PeftModel.from_pretrained(model, adapter)
