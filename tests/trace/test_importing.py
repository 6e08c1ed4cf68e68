"""Recorded traffic of other systems becomes traces and workloads. All samples are made up."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blis_core.cli.main import main
from blis_core.contracts import ImportedRequest, ImportSetup
from blis_core.errors import BlisError
from blis_core.trace.azure import AzureImporter
from blis_core.trace.importing import as_trace, as_workload, collect, shared_prefixes
from blis_core.trace.mooncake import MooncakeImporter
from blis_core.trace.replay import check_replayable, fixed_requests
from blis_core.trace.tracev2 import read_trace

AZURE = """TIMESTAMP,ContextTokens,GeneratedTokens
2024-05-01 10:00:01.5000000,300,20
2024-05-01 10:00:00.2500000,40,5
2024-05-01 10:00:03.0000001,41,6
"""
MOONCAKE = "".join(
    json.dumps({"timestamp": t, "input_length": n, "output_length": 3, "hash_ids": ids}) + "\n"
    for t, n, ids in [
        (0, 1500, [0, 1, 2]),
        (1000, 2100, [0, 1, 3, 4, 5]),
        (2500, 2600, [0, 1, 3, 4, 6, 7]),
        (3000, 100, [8]),
    ]
)


def read(importer: Any, text: str, folder: Path) -> list[ImportedRequest]:
    path = folder / "recording"
    path.write_text(text)
    return list(importer.read(str(path)))


def test_azure_dates_count_from_the_earliest(tmp_path: Path) -> None:
    requests = read(AzureImporter(ImportSetup()), AZURE, tmp_path)
    assert requests == [(1_250_000, 300, 20, *REST), (0, 40, 5, *REST), (2_750_000, 41, 6, *REST)]


REST = ((), "", "", "", "", "", 0)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("arrival_s,input_tokens,output_tokens\n0.5,3,4\n", (500_000, 3, 4)),
        ("x,Output_Tokens,input_tokens , arrived_at\n1,4,3,2\n", (2_000_000, 3, 4)),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00+00:00,3,4\n", (0, 3, 4)),
        ("\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\r\n1e1,3,4\r\n", (10_000_000, 3, 4)),
    ],
)
def test_azure_columns_are_found_by_name(
    text: str, found: tuple[int, int, int], tmp_path: Path
) -> None:
    assert read(AzureImporter(ImportSetup()), text, tmp_path) == [(*found, *REST)]


HEAD = "arrival_s,input_tokens,output_tokens\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("a,b\n1,2\n", "no column is called timestamp or arrival_s or arrived_at; found a, b"),
        (HEAD + "1,2\n", "line 2: 2 columns, 3 in the header"),
        (HEAD + "-1,2,3\n", "line 2: the time must be at least 0 s"),
        (HEAD + "nan,2,3\n", "line 2: the time must be at least 0 s"),
        (HEAD + "1,2,3\nsoon,2,3\n", "line 3: 'soon' is neither seconds nor a date"),
        (HEAD + "1,2,3\n2024-01-01,2,3\n", "line 3: dates and seconds are mixed"),
        (HEAD + "1,2.5,3\n", "line 2: tokens must be a whole number of at least 0, not '2.5'"),
        (HEAD + "1,2,-3\n", "not '-3'"),
    ],
)
def test_azure_mistakes(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=message):
        read(AzureImporter(ImportSetup()), text, tmp_path)


def mooncake(text: str, folder: Path, **options: str) -> list[ImportedRequest]:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return read(MooncakeImporter(ImportSetup(options=given)), text, folder)


def test_mooncake_keeps_blocks(tmp_path: Path) -> None:
    requests = mooncake(MOONCAKE, tmp_path)
    assert requests[1] == (1_000_000, 2100, 3, (0, 1, 3, 4, 5), *REST[1:])


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("nonsense", "line 1: not valid JSON"),
        ("[]", "line 1: must be an object"),
        ('{"timestamp": 1, "output_length": 1}', "input_length must be a whole number"),
        ('{"timestamp": 1, "input_length": 1.5, "output_length": 1}', "input_length must be"),
        ('{"timestamp": 1, "input_length": 1, "output_length": -1}', "output_length must be"),
        ('{"timestamp": -1, "input_length": 1, "output_length": 1}', "timestamp must be"),
        (
            '{"timestamp": 1, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}',
            "hash_ids must be a list of whole numbers",
        ),
        (
            '{"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}',
            "2 blocks of 512 tokens are too many for input_length 512; --block-tokens says",
        ),
    ],
)
def test_mooncake_mistakes(line: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(BlisError, match=message):
        mooncake(line, tmp_path)


def test_mooncake_block_size(tmp_path: Path) -> None:
    line = '{"timestamp": 1, "input_length": 512, "output_length": 1, "hash_ids": [1, 2]}\n\n'
    assert len(mooncake(line, tmp_path, block_tokens="256")) == 1
    for wrong in ("0", "x", "-1"):
        with pytest.raises(BlisError, match="--block-tokens"):
            mooncake(line, tmp_path, block_tokens=wrong)


# ----------------------------------------------------------------------------------- collections


def requests(*arrivals: int, **fields: Any) -> list[ImportedRequest]:
    return [ImportedRequest(arrival, 10, 2, **fields) for arrival in arrivals]


def test_requests_are_sorted_cut_and_made_faster() -> None:
    traffic = collect("t", requests(9, 3, 6, 12), limit=3, speed=3.0)
    assert [r.arrival_us for r in traffic.requests] == [1, 2, 3]


def test_empty_prompts_are_left_out(capsys: Any) -> None:
    traffic = collect("t", [ImportedRequest(1, 0, 5), *requests(2)])
    assert [r.arrival_us for r in traffic.requests] == [2]
    assert "1 requests without a prompt are left out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "size", "message"),
    [
        ([], 0, "no request with a prompt"),
        ([ImportedRequest(1, 0, 5)], 0, "no request with a prompt"),
        ([ImportedRequest(-1, 1, 5)], 0, "is not possible"),
        ([ImportedRequest(1, 1, -5)], 0, "is not possible"),
        ([ImportedRequest(1, 1, 5, (3,))], 0, "is not possible"),
        ([ImportedRequest(1, 4, 5, (3, 4))], 4, "is not possible"),
        ([ImportedRequest(1, 4, 5, (-3,))], 4, "is not possible"),
    ],
)
def test_impossible_requests(found: list[ImportedRequest], size: int, message: str) -> None:
    with pytest.raises(BlisError, match=message):
        collect("t", found, size)


def test_longest_shared_prefixes() -> None:
    traffic = collect(
        "t",
        [
            ImportedRequest(0, 30, 1, (0, 1, 2)),
            ImportedRequest(1, 45, 1, (0, 1, 3, 4, 5)),
            ImportedRequest(2, 48, 1, (0, 1, 3, 4, 6)),
            ImportedRequest(3, 9, 1, (0,)),  # not even one whole block
            ImportedRequest(4, 10, 1, (7,)),
        ],
        10,
    )
    assert shared_prefixes(traffic) == [
        ("prefix-0", 20),
        ("prefix-1", 40),
        ("prefix-1", 40),
        ("", 0),
        ("", 0),
    ]


@st.composite
def block_traffic(draw: st.DrawFn) -> Any:
    size = draw(st.integers(1, 5))
    made = []
    for _ in range(draw(st.integers(1, 8))):
        blocks = tuple(draw(st.lists(st.integers(0, 3), max_size=4)))
        least = max(1, (len(blocks) - 1) * size + 1)
        length = draw(st.integers(least, least + 6))
        made.append(ImportedRequest(draw(st.integers(0, 10**6)), length, 1, blocks))
    return collect("t", made, size)


@settings(max_examples=60, deadline=None)
@given(block_traffic())
def test_traces_and_workloads_of_any_traffic(traffic: Any) -> None:
    _, rows = as_trace(traffic)
    check_replayable(rows, "t.csv")
    wanted = [r.input_tokens for r in traffic.requests]
    assert [r.prompt_len for r in fixed_requests(rows, 1)] == wanted
    # readers that do not know the column of blocks get prompts of the same length
    rows.blocks = None
    assert [r.prompt_len for r in fixed_requests(rows, 1)] == wanted
    spec = as_workload(traffic)
    assert spec.num_requests == len(traffic.requests)
    assert sum(client.rate_fraction for client in spec.clients) == pytest.approx(1)


def test_many_lengths_are_put_into_groups() -> None:
    many = [ImportedRequest(i, 1000 + i, 5 + i % 3) for i in range(1000)]
    (client,) = as_workload(collect("t", many)).clients
    lengths = client.input_distribution.params
    assert len(lengths) == 200
    assert sum(lengths.values()) == 1000
    mean = sum(int(length) * n for length, n in lengths.items()) / 1000
    assert mean == pytest.approx(1499.5, abs=0.5)
    assert client.output_distribution.params == {"5": 334.0, "6": 333.0, "7": 333.0}


# --------------------------------------------------------------------------------------- commands

ENGINE = (
    "--model qwen/qwen3-14b --latency-model blackbox --hardware H100 --tp 1 "
    "--beta-coeffs 5000,15,10 --alpha-coeffs 200,1,5 --total-kv-blocks 4000"
).split()


@pytest.mark.parametrize(
    ("name", "text", "count"), [("azure", AZURE, 3), ("mooncake", MOONCAKE, 4)]
)
def test_from_a_recording_to_a_replay_and_a_run(
    name: str, text: str, count: int, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recording").write_text(text)
    argv = ["convert", name, "--file", "recording"]
    assert main([*argv, "--trace-output", "t", "--workload-output", "w.yaml"]) == 0
    assert capsys.readouterr().out == ""
    assert main(argv) == 0
    assert capsys.readouterr().out == Path("w.yaml").read_text()
    files = ["--trace-header", "t.yaml", "--trace-data", "t.csv", "--horizon", "99000000"]
    for command in (["replay", *ENGINE, *files], ["run", *ENGINE, "--workload-spec", "w.yaml"]):
        assert main([*command, "--output", "json"]) == 0
        results = json.loads(capsys.readouterr().out)
        assert results["cluster"]["completed_requests"] == count


def test_a_replay_hits_the_cache_where_blocks_are_shared(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    """Blocks of 512 tokens are 32 of 16: nested prefixes are found to the last one."""
    monkeypatch.chdir(tmp_path)
    Path("recording").write_text(MOONCAKE)
    assert main(["convert", "mooncake", "--file", "recording", "--trace-output", "t"]) == 0
    files = ["--trace-header", "t.yaml", "--trace-data", "t.csv", "--horizon", "99000000"]
    assert main(["replay", *ENGINE, *files, "--output", "json"]) == 0
    rate = json.loads(capsys.readouterr().out)["kv"]["cache_hit_rate"]
    # prompts of 1500, 2100, 2600 and 100 tokens share 0, 1024, 2048 and 0
    hits, taken = (1024 + 2048) // 16, sum(-(-(n + 2) // 16) for n in (1500, 2100, 2600, 100))
    assert rate == pytest.approx(hits / taken)


def test_options_of_an_importer(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").write_text(MOONCAKE)
    argv = "convert mooncake --file r --trace-output t --block-tokens 500 --limit 2".split()
    assert main([*argv, "--speed", "2"]) == 0
    rows = read_trace("t.yaml", "t.csv").rows
    assert rows.blocks is not None
    assert rows.blocks.size == 500
    assert list(rows.column("arrival_time_us")) == [0, 500_000]
    assert main(["convert", "mooncake", "--help"]) == 0
    assert "--block-tokens" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "--file: is required"),
        ("--file nowhere", "cannot read nowhere"),
        ("--file r --limit -1", "--limit: must be at least 0"),
        ("--file r --speed 0", "--speed: must be greater than 0"),
        ("--file r --speed inf", "--speed: must be finite"),
        ("--file r --trace-output no/t", "--trace-output: folder no does not exist"),
        ("--file r --workload-output r", "is the file of --file"),
        ("--file r --bogus", "--bogus"),
    ],
)
def test_wrong_options(
    flags: str, message: str, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("r").write_text(AZURE)
    assert main(["convert", "azure", *flags.split()]) != 0
    shown = capsys.readouterr()
    assert message in shown.err
    assert shown.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["r"]


PLUGIN = """
from blis_core.api import ImportedRequest, Importer, hookimpl

class Lines(Importer):
    def read(self, path):
        with open(path) as file:
            return [ImportedRequest(i * 1000, len(line), 1) for i, line in enumerate(file)]

@hookimpl
def blis_register_importers(register):
    register("lines", Lines, summary="one request per line of text")
"""


def test_an_importer_of_a_plugin(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("lines.py").write_text(PLUGIN)
    Path("r").write_text("some\nlines of\ntext\n")
    plugin = ["--plugin", "lines.py"]
    assert main([*plugin, "convert", "lines", "--file", "r", "--trace-output", "t"]) == 0
    assert list(read_trace("t.yaml", "t.csv").rows.column("input_tokens")) == [5, 9, 5]
    assert main([*plugin, "convert"]) == 0
    assert "one request per line of text" in capsys.readouterr().out
    assert main([*plugin, "--list-plugins"]) == 0
    listed = capsys.readouterr().out
    assert "importer: lines" in listed
    assert "importer: azure, mooncake" in listed
