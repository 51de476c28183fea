"""Local vision-language models: any transformers image-text-to-text checkpoint whose chat template takes images."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spotchange.answering.vlm.asking import Arrived, Question, RawReply
from spotchange.answering.vlm.settings import VlmSettings
from spotchange.errors import ModelError, ReplyError, SpotchangeError
from spotchange.models.vlm.checkpoint import Checkpoint, load_checkpoint
from spotchange.models.vlm.templates import has_template, message, templated, without_second_start
from spotchange.models.weights.description import called, resolved


class LocalModel:
    """`Asked`, on this machine."""

    def __init__(self, name: str, settings: VlmSettings, *, device: str) -> None:
        name = resolved(name)
        self.name = called(Path(name)) if Path(name).is_dir() else name  # a visitor need not see the path
        self._settings = settings
        loaded = _load(name, settings, device)
        self._model, self._processor = loaded.model, loaded.processor
        self.sees, self.prompt_file = loaded.sees, loaded.prompt_file
        self.signature = f"{loaded.signature}+{settings.dtype}+max{settings.max_new_tokens}+greedy"
        self._converses = has_template(self._processor)
        self.device = str(self._model.device)
        self._lock = threading.Lock()  # one batch at a time: several would compete for the same memory

    def ask(self, questions: Sequence[Question], arrived: Arrived) -> None:
        """In batches, one after the other."""
        if not self._converses and any(question.system or len(question.turn.images) > 1 for question in questions):
            hint = "a prompt without system text that shows one stacked picture needs none (prompt=blip2idc)"
            raise ModelError(f"{self.name} has no chat template", hint=hint)
        for start in range(0, len(questions), self._settings.batch_size):
            batch = questions[start : start + self._settings.batch_size]
            for place, reply in enumerate(self._replies(batch), start):
                arrived(place, reply)

    def _replies(self, batch: Sequence[Question]) -> Sequence[RawReply | SpotchangeError]:
        """A batch that fails is asked one by one, so that one bad pair costs no other its answer."""
        try:
            with self._lock:
                return self._generate(batch)
        except SpotchangeError:
            raise
        except Exception as error:  # of any family's code, about any image
            if len(batch) > 1:
                return [reply for question in batch for reply in self._replies([question])]
            told = " ".join(str(error).split())[:200]
            return [ReplyError(f"{self.name} failed on this pair: {type(error).__name__}: {told}")]

    def _generate(self, questions: Sequence[Question]) -> list[RawReply]:
        import torch

        inputs = self._inputs(questions)
        lengths = [int(mask.sum()) for mask in inputs["attention_mask"]]
        one_word = questions[0].yes_or_no
        with torch.inference_mode():
            made = self._model.generate(
                **inputs,
                max_new_tokens=1 if one_word else self._settings.max_new_tokens,
                do_sample=False,
                num_beams=1,
                return_dict_in_generate=True,
                output_logits=one_word,
            )
        if one_word:
            return [self._yes_or_no(row, length) for row, length in zip(made.logits[0].float(), lengths, strict=True)]
        written = made.sequences[:, inputs["input_ids"].shape[1] :].tolist()
        return [self._reply(row, length) for row, length in zip(written, lengths, strict=True)]

    def _reply(self, ids: list[int], prompt_tokens: int) -> RawReply:
        ends = self._model.generation_config.eos_token_id
        ends = set(ends if isinstance(ends, list) else [ends])
        length = next((place + 1 for place, id in enumerate(ids) if id in ends), None)
        return RawReply(
            text=self._processor.tokenizer.decode(ids[:length], skip_special_tokens=True),
            prompt_tokens=prompt_tokens,
            reply_tokens=len(ids) if length is None else length,
            cut_off=length is None,
        )

    def _inputs(self, questions: Sequence[Question]) -> Any:
        texts = [self._text(question) for question in questions]
        images = [[image.pil for turn in question.turns for image in turn.images] for question in questions]
        shown = {"images": images} if any(images) else {}
        once = without_second_start(self._processor, texts[0])
        inputs = self._processor(text=texts, return_tensors="pt", padding=True, **shown, **once)
        return inputs.to(self._model.device)

    def _text(self, question: Question) -> str:
        if not self._converses:
            return question.turn.text
        messages = [message("system", question.system)] if question.system else []
        for turn in question.turns:
            messages.append(message("user", turn.text, images=len(turn.images)))
            if turn.reply is not None:
                messages.append(message("assistant", turn.reply))
        return templated(self._processor, messages, add_generation_prompt=True)

    def _yes_or_no(self, logits: Any, prompt_tokens: int) -> RawReply:
        """P(yes) against P(no) over the ways a tokenizer writes them."""
        import torch

        log_probabilities = torch.log_softmax(logits, dim=-1)
        yes, no = self._first_tokens("yes"), self._first_tokens("no")
        # A space that is a token of its own begins either word and tells nothing.
        masses = [
            float(torch.logsumexp(log_probabilities[sorted(ids)], dim=0).exp()) if ids else 0.0
            for ids in (yes - no, no - yes)
        ]
        total = sum(masses)
        return RawReply(
            text="yes" if masses[0] >= masses[1] else "no",
            prompt_tokens=prompt_tokens,
            reply_tokens=1,
            yes_probability=masses[0] / total if total > 0 else None,
        )

    def _first_tokens(self, word: str) -> set[int]:
        tokenizer = self._processor.tokenizer
        forms = [form for base in (word, word.capitalize(), word.upper()) for form in (base, f" {base}")]
        encoded = (tokenizer.encode(form, add_special_tokens=False) for form in forms)
        return {ids[0] for ids in encoded if ids} - {tokenizer.unk_token_id}


def _load(name: str, settings: VlmSettings, device: str) -> Checkpoint:
    """Model and processor, ready to be asked."""
    loaded = load_checkpoint(
        name,
        revision=settings.revision,
        trust_remote_code=settings.trust_remote_code,
        dtype=settings.dtype,
        device_map=settings.device_map,
        adapter=settings.adapter,
    )
    model, processor = loaded.model, loaded.processor
    if settings.device_map is None:
        model = model.to(device)
    processor.tokenizer.padding_side = "left"  # replies begin where prompts end
    return replace(loaded, model=model.eval())
