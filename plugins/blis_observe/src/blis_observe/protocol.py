"""The OpenAI API as far as ``blis serve`` speaks it: reading requests and writing answers."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import attrs

from blis_observe.pretence import Tokenizer

if TYPE_CHECKING:
    from blis_observe.pretence import Ids

DEFAULT_TOKENS = {False: 16, True: 256}
"""Longest answer to a request without max_tokens, by whether it is a chat. 16 is the API's."""


class Refusal(Exception):
    """A request that cannot be served."""

    def __init__(self, code: int, message: str, kind: str = "BadRequestError") -> None:
        super().__init__(message)
        self.code, self.message, self.kind = code, message, kind

    def document(self) -> dict[str, Any]:
        """The answer's body."""
        return {
            "error": {
                "message": self.message,
                "type": self.kind,
                "param": None,
                "code": self.code,
            }
        }


@attrs.frozen(kw_only=True)
class Ask:
    """What a request asks for."""

    chat: bool
    prompt: Ids
    stream: bool
    include_usage: bool
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool


def read_ask(document: Any, *, chat: bool, model: str, tokenizer: Tokenizer) -> Ask:
    """Read the JSON body of a request. :class:`Refusal` for what is wrong or not supported."""
    if not isinstance(document, dict):
        raise Refusal(400, "the body must be a JSON object")
    asked = document.get("model")
    if asked is not None and (not isinstance(asked, str) or asked.lower() != model):
        raise Refusal(404, f"The model `{asked}` does not exist.", "NotFoundError")
    for name in ("n", "best_of"):
        if document.get(name) not in (None, 1):
            raise Refusal(400, f"{name}: only 1 is supported")
    longest = _count(document, "max_completion_tokens" if chat else "max_tokens", least=1)
    if chat and longest is None:
        longest = _count(document, "max_tokens", least=1)
    options = document.get("stream_options") or {}
    if not isinstance(options, dict):
        raise Refusal(400, "stream_options must be an object")
    prompt = tokenizer.ids(_conversation(document)) if chat else _prompt(document, tokenizer)
    if not len(prompt):
        raise Refusal(400, "the prompt is empty")
    return Ask(
        chat=chat,
        prompt=prompt,
        stream=document.get("stream") is True,
        include_usage=options.get("include_usage") is True,
        max_tokens=longest,
        min_tokens=_count(document, "min_tokens", least=0) or 0,
        ignore_eos=document.get("ignore_eos") is True,
    )


def _count(document: dict[str, Any], name: str, *, least: int) -> int | None:
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise Refusal(400, f"{name} must be a whole number of at least {least}, not {value!r}")
    return value


def _prompt(document: dict[str, Any], tokenizer: Tokenizer) -> Ids:
    """The prompt of a completion: a text or token ids, also as the only element of a list."""
    import numpy as np

    prompt = document.get("prompt")
    if isinstance(prompt, list) and len(prompt) == 1 and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    if isinstance(prompt, str):
        return tokenizer.ids(prompt)
    if isinstance(prompt, list) and all(isinstance(i, int) and 0 <= i < 2**31 for i in prompt):
        return np.array(prompt, dtype=np.int32)
    raise Refusal(400, "prompt must be a text or a list of token ids (one prompt per request)")


def _conversation(document: dict[str, Any]) -> str:
    """The texts of all messages; roles and templates count nothing."""
    messages = document.get("messages")
    if not isinstance(messages, list) or not messages:
        raise Refusal(400, "messages must be a list with at least one message")
    parts: list[str] = []
    for message in messages:
        content = message.get("content") if isinstance(message, dict) else message
        if isinstance(content, list):
            content = " ".join(
                str(part.get("text", "")) for part in content if isinstance(part, dict)
            )
        if content is not None and not isinstance(content, str):
            raise Refusal(400, "the content of a message must be a text or a list of parts")
        parts.append(content or "")
    return " ".join(parts)


class Reply:
    """Writes the answer to one request, whole or as events."""

    def __init__(self, ask: Ask, number: int, model: str) -> None:
        self._chat, self._model = ask.chat, model
        self._head: dict[str, Any] = {
            "id": f"{'chatcmpl' if ask.chat else 'cmpl'}-blis-{number}",
            "object": ("chat.completion.chunk" if ask.chat else "text_completion"),
            "created": int(time.time()),
            "model": model,
        }
        # Events differ in one word; it is put between two texts that are made once.
        mark = "\0"
        key, value = ("delta", {"content": mark}) if ask.chat else ("text", mark)
        event = self._event({"index": 0, key: value, "logprobs": None, "finish_reason": None})
        before, _, after = event.partition(json.dumps(mark)[1:-1])
        self._before, self._after = before.encode(), after.encode()

    def _event(self, choice: dict[str, Any]) -> str:
        return f"data: {json.dumps({**self._head, 'choices': [choice]})}\n\n"

    def role(self) -> bytes:
        """The event that opens a chat; nothing otherwise."""
        if not self._chat:
            return b""
        delta = {"role": "assistant", "content": ""}
        return self._event({"index": 0, "delta": delta, "finish_reason": None}).encode()

    def tokens(self, words: Sequence[str]) -> bytes:
        """One event for each of ``words`` (which need no escaping)."""
        before, after = self._before, self._after
        return b"".join([before + word.encode() + after for word in words])

    def last_token(self, word: str, reason: str) -> bytes:
        """The event of the last word, with the finish reason."""
        key, value = ("delta", {"content": word}) if self._chat else ("text", word)
        choice = {"index": 0, key: value, "logprobs": None, "finish_reason": reason}
        return self._event(choice).encode()

    def usage(self, usage: dict[str, int]) -> bytes:
        """The event with the counts of tokens."""
        return f"data: {json.dumps({**self._head, 'choices': [], 'usage': usage})}\n\n".encode()

    def whole(self, text: str, reason: str, usage: dict[str, int]) -> dict[str, Any]:
        """The answer as one document."""
        key, value = (
            ("message", {"role": "assistant", "content": text}) if self._chat else ("text", text)
        )
        choice = {"index": 0, key: value, "logprobs": None, "finish_reason": reason}
        name = "chat.completion" if self._chat else "text_completion"
        return {**self._head, "object": name, "choices": [choice], "usage": usage}


DONE = b"data: [DONE]\n\n"


def usage(prompt: int, completion: int) -> dict[str, int]:
    """Counts of tokens."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
    }
