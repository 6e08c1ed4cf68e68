"""``blis serve`` over real HTTP: the API, its errors, metrics, and clients that go away."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import socket
import subprocess
import time
from urllib.parse import urlsplit

import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from blis_core.cli.main import main
from plugins.blis_observe.tests.serving import COMMAND, serving

MODEL = "qwen/qwen3-14b"


@pytest.fixture(scope="module")
def url():
    with serving("--max-model-len", "5000", "--max-num-running-reqs", "64") as address:
        yield address


@pytest.fixture
def client(url):
    # the environment's proxies are not for loopback
    http_client = openai.DefaultHttpxClient(trust_env=False)
    with openai.OpenAI(
        base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http_client
    ) as made:
        yield made


def ask(url, method, path, body=None, headers=None):
    """(status, body) of one exchange."""
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=30)
    try:
        data = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        connection.request(method, path, data, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def metrics(url):
    """Values by (name, labels but the model's)."""
    status, text = ask(url, "GET", "/metrics")
    assert status == 200
    return {
        (sample.name, *(value for name, value in sample.labels.items() if name != "model_name")):
        sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }  # fmt: skip


# --------------------------------------------------------------------- the official Python client


def test_models(client):
    assert [model.id for model in client.models.list()] == [MODEL]


def test_completion(client):
    answer = client.completions.create(model=MODEL, prompt="one two three", max_tokens=7)
    assert answer.usage.prompt_tokens == 3
    assert answer.usage.completion_tokens == 7
    assert len(answer.choices[0].text.split()) == 7
    assert answer.choices[0].finish_reason == "length"


def test_streamed_completion(client):
    events = list(
        client.completions.create(
            model=MODEL,
            prompt="one two three",
            max_tokens=7,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert [len(event.choices) for event in events] == [1] * 7 + [0]
    assert [event.choices[0].finish_reason for event in events[:-1]] == [None] * 6 + ["length"]
    assert events[-1].usage.total_tokens == 10
    # the same prompt has the same answer, whole or in pieces
    whole = client.completions.create(model=MODEL, prompt="one two three", max_tokens=7)
    assert whole.choices[0].text == "".join(event.choices[0].text for event in events[:-1])


def test_chat(client):
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": [{"type": "text", "text": "one two three"}]},
    ]
    answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)
    assert answer.choices[0].message.role == "assistant"
    assert len(answer.choices[0].message.content.split()) == 4
    assert answer.usage.prompt_tokens == 5
    pieces = list(
        client.chat.completions.create(
            model=MODEL, messages=messages, max_completion_tokens=4, stream=True
        )
    )
    text = "".join(piece.choices[0].delta.content for piece in pieces)
    assert text == answer.choices[0].message.content
    assert pieces[0].choices[0].delta.role == "assistant"
    assert pieces[-1].choices[0].finish_reason == "length"


def test_token_ids_as_prompt(client):
    answer = client.completions.create(model=MODEL, prompt=[5, 6, 7, 8], max_tokens=2)
    assert answer.usage.prompt_tokens == 4


def test_lengths_without_a_limit(client):
    answer = client.completions.create(model=MODEL, prompt="one")
    assert answer.usage.completion_tokens == 16
    answer = client.chat.completions.create(
        model=MODEL, messages=[{"role": "user", "content": "one"}]
    )
    assert answer.usage.completion_tokens == 256
    answer = client.completions.create(model=MODEL, prompt="one " * 4990, max_tokens=2**31 - 1)
    assert answer.usage.completion_tokens == 10  # what is left of the context


def test_refusals(client):
    with pytest.raises(openai.NotFoundError, match="does not exist"):
        client.completions.create(model="other", prompt="one")
    with pytest.raises(openai.BadRequestError, match="maximum context length"):
        client.completions.create(model=MODEL, prompt="one " * 5000)
    with pytest.raises(openai.BadRequestError, match="n: only 1"):
        client.completions.create(model=MODEL, prompt="one", n=2)


# ------------------------------------------------------------------------------------ plain HTTP


@pytest.mark.parametrize(
    "body",
    [
        "",
        "no json",
        "[1]",
        "null",
        "{}",
        '{"prompt": ""}',
        '{"prompt": 3}',
        '{"prompt": ["a", "b"]}',
        '{"prompt": [-1]}',
        '{"prompt": "a", "max_tokens": 0}',
        '{"prompt": "a", "max_tokens": "7"}',
        '{"prompt": "a", "max_tokens": 1.5}',
        '{"prompt": "a", "min_tokens": -1}',
        '{"prompt": "a", "stream_options": 3}',
        b"\xff\xfe",
        "[" * 100_000,
    ],
    ids=lambda body: str(body[:30]),
)
def test_bad_bodies(url, body):
    status, text = ask(url, "POST", "/v1/completions", body)
    assert status == 400
    assert json.loads(text)["error"]["message"]


@pytest.mark.parametrize(
    "messages", [None, [], "text", [3], [{"content": 3}], [{"role": "user"}], [{"content": []}]]
)
def test_bad_chats(url, messages):
    status, text = ask(url, "POST", "/v1/chat/completions", {"messages": messages})
    assert status == 400
    assert json.loads(text)["error"]["message"]


def test_other_addresses(url):
    assert ask(url, "GET", "/health") == (200, b"")
    assert ask(url, "GET", "/v1/elsewhere")[0] == 404
    assert ask(url, "GET", "/v1/completions")[0] == 405


def test_probe(url, capsys):
    assert main(["probe", "--server-url", url]) == 0
    assert MODEL in capsys.readouterr().out


def test_metrics(url):
    before = metrics(url)
    ask(url, "POST", "/v1/completions", {"prompt": "a b c d", "max_tokens": 9})
    after = metrics(url)
    grown = {name: after[name] - before[name] for name in after}
    assert grown["vllm:prompt_tokens_total",] == 4
    assert grown["vllm:generation_tokens_total",] == 9
    assert grown["vllm:request_success_total", "length"] == 1
    for name in ("time_to_first_token", "e2e_request_latency"):
        assert grown[f"vllm:{name}_seconds_count",] == 1
    assert grown["vllm:inter_token_latency_seconds_count",] == 8
    first, whole = (
        grown[f"vllm:{name}_seconds_sum",]
        for name in ("time_to_first_token", "e2e_request_latency")
    )
    assert 0 < first < whole
    assert after["vllm:num_requests_running",] == 0


def test_who_hangs_up_frees_the_place(url):
    host, port = urlsplit(url).netloc.split(":")
    before = metrics(url)["vllm:request_success_total", "abort"]
    for stream in (True, False):
        body = json.dumps({"prompt": "a", "max_tokens": 4000, "stream": stream}).encode()
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(
                b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
            )
            wait_until(lambda: metrics(url)["vllm:num_requests_running",] == 1)
    wait_until(lambda: metrics(url)["vllm:num_requests_running",] == 0)
    assert metrics(url)["vllm:request_success_total", "abort"] == before + 2


def wait_until(condition):
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_key_and_lengths_of_their_own():
    options = ("--api-key", "secret", "--answer-tokens", "30", "--answer-tokens-stdev", "8")
    with serving(*options, "--tokens-per-word", "1.5") as url:
        body = {"prompt": "a b c d", "max_tokens": 500}
        assert ask(url, "POST", "/v1/completions", body)[0] == 401
        assert ask(url, "GET", "/health")[0] == 200
        headers = {"Authorization": "Bearer secret"}
        lengths = []
        for extra in ({}, {}, {}, {"ignore_eos": True}, {"min_tokens": 400}, {"max_tokens": 2}):
            status, text = ask(url, "POST", "/v1/completions", {**body, **extra}, headers)
            answer = json.loads(text)
            assert status == 200
            assert answer["usage"]["prompt_tokens"] == 6
            lengths.append(
                (answer["usage"]["completion_tokens"], answer["choices"][0]["finish_reason"])
            )
    assert all(reason == "stop" and 0 < count < 100 for count, reason in lengths[:3])
    assert len({count for count, _ in lengths[:3]}) > 1
    assert lengths[3:] == [(500, "length"), (400, "stop"), (2, "length")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "none/such"], "none/such"),
        (["--model", MODEL, "--time-scale", "0"], "--time-scale"),
        (["--model", MODEL, "--time-scale", "inf"], "--time-scale"),
        (["--model", MODEL, "--tokens-per-word", "nan"], "--tokens-per-word"),
        (["--model", MODEL, "--port", "70000"], "--port"),
        ([], "--model"),
    ],
)
def test_what_cannot_be_served(options, message, capsys):
    assert main(["serve", *options]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.count("\n") == 1


def test_a_port_that_is_taken(capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["serve", "--model", MODEL, "--port", port]) == 1
    assert f"cannot listen at 127.0.0.1:{port}" in capsys.readouterr().err


def test_options_of_clusters_are_unknown(capsys):
    assert main(["serve", "--model", MODEL, "--num-instances", "2"]) == 2
    assert "unknown flag --num-instances" in capsys.readouterr().err


def test_an_instance_that_cannot_go_on_ends_the_server(tmp_path):
    """One line and exit code 1, and nobody waits for ever."""
    plugin = tmp_path / "broken.py"
    plugin.write_text(
        "from blis_core.api import BlisError, LatencyModel, hookimpl\n"
        "class Broken(LatencyModel):\n"
        "    analytical = False\n"
        "    def step_time(self, shape):\n"
        "        raise BlisError('no such batch')\n"
        "@hookimpl\n"
        "def blis_register_latency_models(register):\n"
        "    register('broken', Broken)\n"
    )
    argv = [*COMMAND, "serve", "--plugin", str(plugin), "--model", MODEL, "--port", "0"]
    argv += ["--latency-model", "broken", "--total-kv-blocks", "100"]
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True) as process:
        address = re.search(r"http://\S+", process.stderr.readline())[0]
        with contextlib.suppress(OSError, http.client.HTTPException):
            ask(address, "POST", "/v1/completions", {"prompt": "a"})
        assert process.wait(20) == 1
        assert process.stderr.read() == "blis: error: no such batch\n"
