"""``blis report``: the page without a browser, the pictures, mistakes."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from blis_core.cli.main import main

VOID = {"meta", "link", "br", "img", "input", "use", "path", "image"}


class Outline(HTMLParser):
    """Checks that elements are closed in order, and collects ids and addresses."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.addresses = [], [], []

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.ids += [given["id"]] if given.get("id") else []
        self.addresses += [v for k, v in attributes if k in ("src", "href", "xlink:href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        if tag not in VOID:
            self.open.append(tag)
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.open.pop()
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def outline(text):
    found = Outline()
    found.feed(text)
    assert not found.open
    return found


def report(folder, *arguments):
    path = folder / "report.html"
    assert main(["report", *map(str, arguments), "--output", str(path)]) == 0
    return path.read_text()


SLOW = [pytest.param(name, marks=pytest.mark.slow) for name in ("pools", "many", "late")]


@pytest.mark.parametrize("name", ["tight", "nobody", "rejected", *SLOW])
def test_the_page_needs_nothing_but_itself(files, tmp_path, name):
    text = report(tmp_path, files[name], "--slo", "ttft=100ms")
    found = outline(text)
    assert len(found.ids) == len(set(found.ids))
    for address in found.addresses:
        assert address.startswith(("#", "data:"))
        if address.startswith("#"):
            assert address[1:] in found.ids
    # no other way to the network either, and no colour that ignores the theme
    assert not re.search(r"url\((?!#)|@import|fetch\(|https?://(?!www\.w3\.org/)", text)
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(drawings) >= 9
    for drawing in drawings:
        assert not re.search(
            r"#[0-9a-f]{6}\b", re.sub(r'(?:id|href)="[^"]*"|base64,[^"]*|url\([^)]*\)', "", drawing)
        )


@pytest.mark.slow
def test_the_same_recordings_give_the_same_page(files, tmp_path):
    assert report(tmp_path, files["tight"]) == report(tmp_path, files["tight"])


def test_runs_side_by_side(files, tmp_path):
    text = report(
        tmp_path, f"a <b>&={files['plain']}", f"$x$={files['tight']}", "--title", "Two & more",
        "--slo", "e2e=20s",
    )  # fmt: skip
    outline(text)
    assert "<title>Two &amp; more</title>" in text
    assert "a &lt;b&gt;&amp;" in text
    assert "a <b>" not in text
    assert text.count("$x$") > 5
    assert " ✗ worse" in text
    assert "Time lines of $x$" in text


def test_names_that_look_alike(files, tmp_path):
    text = report(tmp_path, f"a b={files['one']}", f"a_b={files['rejected']}")
    found = outline(text)
    assert len(found.ids) == len(set(found.ids))


def test_the_words_of_the_summary(files, tmp_path):
    text = report(tmp_path, files["tight"], "--slo", "critical:ttft=50ms", "--slo", "gold:e2e=1s")
    for words in ("Saturated", "Bottleneck", "met all their targets", "class gold", "KV cache was"):
        assert words in text
    assert "add --slo" in re.sub("<[^>]*>", "", report(tmp_path, files["plain"]))
    assert "100 % of the requests did not complete: 5 rejected" in report(
        tmp_path, files["rejected"]
    )


def test_pictures_alone(files, tmp_path, capsys):
    folder = tmp_path / "deep" / "pictures"
    assert main(["report", str(files["one"]), "--png", str(folder)]) == 0
    assert capsys.readouterr() == ("", "")
    names = {path.name for path in folder.iterdir()}
    assert {"ttft.png", "e2e.png", "parts.png", "queue.png", "kv.png", "prefix.png"} <= names
    for path in folder.iterdir():
        assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "nothing to write; give --output FILE, --png DIR or both"),
        (["--output", "/nowhere/r.html"], 1, "--output: folder /nowhere does not exist"),
        (["--output", "/"], 1, "is a folder; name a file"),
        (["--output", "r.html", "--slo", "fast"], 1, "--slo: 'fast' is not a target"),
        (["--output", "r.html", "--png", "/dev/null"], 1, "--png: /dev/null is not a folder"),
        (["--output", "r.html", "none.rec"], 1, "cannot read none.rec"),
        (["--png", "/dev/null/x"], 1, "--png: cannot make /dev/null/x"),
    ],
)
def test_mistakes_are_one_line(files, tmp_path, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    assert main(["report", str(files["one"]), *arguments]) == code
    shown = capsys.readouterr()
    assert message in shown.err
    assert "Traceback" not in shown.err
    assert not list(tmp_path.iterdir())


def test_a_recording_is_not_overwritten(files, capsys):
    before = files["one"].read_bytes()
    assert main(["report", f"x={files['one']}", "--output", str(files["one"])]) == 1
    assert "is a recording" in capsys.readouterr().err
    assert files["one"].read_bytes() == before
