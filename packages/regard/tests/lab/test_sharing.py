"""The lab in other people's pages: frames on named origins only, hidden answers, and a page inside a notebook."""

from __future__ import annotations

import http.client
import http.server
import json
import os
import subprocess
import sys
import threading
from urllib.parse import urlsplit

import numpy as np
import pytest

from lab_browser import browser
from processes import PATIENCE
from regard import lab as rooms
from regard.errors import InputError
from regard.lab import notebook
from regard.lab.page import REFUSED
from regard.lab.server import Lab
from regard.web.access import NOTEBOOKS, checked_origins

pytest.importorskip("uplot", reason="the lab is not installed: pip install 'regard[lab]'")

__all__ = ["browser"]  # a fixture


def serving(server):
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    return server


@pytest.fixture
def site():
    """A page of somebody's, on an origin of its own; what it shows is set by the test."""

    class Site(http.server.BaseHTTPRequestHandler):
        body = b""

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(type(self).body)

        def log_message(self, *about):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site) as server:
        server.page = Site
        yield serving(server)
        server.shutdown()


def got(lab, path, **headers):
    """Status, headers and body of a page."""
    wire = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=PATIENCE)
    wire.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = wire.getresponse()
    found = answer.status, dict(answer.getheaders()), answer.read()
    wire.close()
    return found


def posted(lab, name, words, **headers):
    wire = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=PATIENCE)
    own = {"Origin": f"http://127.0.0.1:{lab.port}"} | {k.replace("_", "-"): v for k, v in headers.items()}
    wire.request("POST", f"/ask/{name}", body=json.dumps(words), headers=own)
    answer = wire.getresponse()
    found = answer.status, json.loads(answer.read())
    wire.close()
    return found


# Frames --------------------------------------------------------------------------------------------------------------


def test_only_a_page_with_the_pass_may_be_framed_and_only_where_it_was_named():
    with Lab(port=0, embed=["https://course.example"]) as lab:
        serving(lab)
        key = lab.access.embed_pass
        status, headers, _ = got(lab, f"/copy?embed={key}")
        assert status == 200
        assert headers["Content-Security-Policy"].endswith("frame-ancestors https://course.example")
        for wrong in ("/copy", "/copy?embed=", "/copy?embed=guess", f"/copy?embed={key}x"):
            status, headers, _ = got(lab, wrong)
            assert status == 403
            assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")
        cookie = lab.access.cookie.partition(";")[0]
        status, headers, _ = got(lab, "/copy", Cookie=cookie)
        assert status == 200
        assert headers["Content-Security-Policy"].endswith("frame-ancestors 'none'")  # the cookie opens no frame
        assert posted(lab, "copy", {}, X_Regard_Embed=key)[0] == 200
        assert posted(lab, "copy", {})[0] == 403
        assert posted(lab, "copy", {}, X_Regard_Embed="guess")[0] == 403
        assert posted(lab, "copy", {}, X_Regard_Embed=key, Origin="https://course.example")[0] == 403
        lab.shutdown()


def test_without_an_origin_the_pass_opens_nothing():
    with Lab(port=0) as lab:
        serving(lab)
        assert got(lab, f"/copy?embed={lab.access.embed_pass}")[0] == 403
        assert posted(lab, "copy", {}, X_Regard_Embed=lab.access.embed_pass)[0] == 403
        lab.shutdown()


@pytest.mark.parametrize(
    "origin", ["*", "https://*.example", "https://a.example/path", "course.example", "javascript:x", "https://a b", ""]
)
def test_an_origin_is_a_scheme_and_a_host(origin):
    with pytest.raises(InputError, match=r"An origin is a scheme and a host, such as https://course\.example"):
        checked_origins([origin])


def test_a_browser_shows_the_frame_on_the_named_origin_and_on_no_other(browser, site):
    here = f"http://127.0.0.1:{site.server_address[1]}"
    with Lab(port=0, embed=[here]) as lab:
        serving(lab)
        site.page.body = lab.frame_tag("copy", height=700).encode()
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        page = context.new_page()
        page.goto(here)
        frame = page.frame_locator("iframe")
        frame.locator("body[data-busy=no] table.keys").wait_for(timeout=PATIENCE * 1000)
        frame.locator("input[name=norm]").fill("7")  # a question from inside the frame is answered
        frame.locator("[data-number=own-norm]:text-is('7')").wait_for(timeout=PATIENCE * 1000)
        assert lab.access.embed_pass in frame.locator("nav a >> nth=1").get_attribute("href")
        page.goto(here.replace("127.0.0.1", "localhost"))  # the same page on an origin that was not named
        page.wait_for_timeout(500)
        refused = page.frames[1]
        assert refused.url.startswith("chrome-error:")
        assert refused.locator("table.keys").count() == 0
        context.close()
        lab.shutdown()


# What is hidden ------------------------------------------------------------------------------------------------------


def test_hidden_answers_are_not_sent():
    words = ("shortest", "textbook", "design", "ceiling(", "hull of the others")
    inside = {"keys": "1,1; -1,1; -1,-1; 1,-1; 0,0", "to": "4"}
    with Lab(port=0, hide=["answers"]) as lab, Lab(port=0) as whole:
        said = json.dumps(
            [lab.answer("copy", inside)[part] for part in ("numbers", "say", "formulas", "why", "python")]
        )
        told = json.dumps([lab.answer("copy", inside)[part] for part in ("shell", "steps")])
        for word in words:
            assert word not in said + told, word
        picture = lab.answer("copy", {})["picture"]
        assert [arrow["kind"] for arrow in picture["arrows"]] == ["own"]
        assert {row["ceiling"] for row in picture["keys"]} == {None}
        assert whole.answer("copy", {})["picture"]["arrows"][0]["kind"] != "own"
        with pytest.raises(InputError, match=REFUSED):
            lab.answer("copy", {"do": "choose 1; use shortest"})
        for show in ("verdict", "proof"):
            with pytest.raises(InputError, match=REFUSED):
                lab.answer("claims", {"show": show})
        assert "Weights are shares of a cake" in whole.frame("copy").decode()
        assert "Weights are shares of a cake" not in lab.frame("copy").decode()
        assert lab.answer("copy", {})["tour"] == {}
        shown = lab.answer("claims", {"of": "cse151b-hw4"})
        assert shown["picture"]["checklists"] == [] == shown["say"]
        assert shown["picture"]["verdict"] is None


def test_lines_and_reasons_can_be_hidden():
    with Lab(port=0, hide=["lines,why"]) as lab:
        said = lab.answer("noise", {})
        assert (said["python"], said["shell"], said["why"]) == ("", "", [])
        assert said["numbers"]
    with pytest.raises(InputError, match="There is nothing called 'proofs' to hide; there are answers, lines, why"):
        Lab(port=0, hide=["proofs"])


def test_the_page_has_no_buttons_for_what_is_hidden(browser):
    with Lab(port=0, hide=["answers", "lines"]) as lab:
        serving(lab)
        context = browser.new_context()
        page = context.new_page()
        page.goto(lab.opening_address)
        page.wait_for_selector("body[data-busy=no] table.keys")
        assert not page.is_visible("#use-shortest")
        assert not page.is_visible("#code")
        page.goto(lab.address + "claims")
        page.wait_for_selector("body[data-busy=no]:not([data-running=yes])")
        assert not any(page.is_visible(one) for one in ("#check", "#prove", "#guess-holds"))
        assert page.is_visible("#next")
        assert not page.is_visible("#tour-open")  # the cards say what comes out
        context.close()
        lab.shutdown()


# Notebooks -----------------------------------------------------------------------------------------------------------


def frame_of(shown):
    """The address inside the iframe."""
    return shown._repr_html_().split('src="')[1].split('"')[0].replace("&amp;", "&")


@pytest.mark.slow
def test_a_page_in_a_notebook_starts_a_lab_and_ends_it():
    with rooms.show("copy", keys=np.eye(2), q=[3, 1], to=0, eps=0.1) as shown:
        assert shown.words == {"keys": "1,0; 0,1", "q": "3,1", "to": "0", "eps": "0.1"}
        second = rooms.show("noise", spread=0.3)
        assert urlsplit(second.address).port == urlsplit(shown.address).port  # one lab is enough
        (lab,) = notebook._users
        status, headers, _ = got(lab, frame_of(shown).partition(str(lab.port))[2])
        assert status == 200
        assert headers["Content-Security-Policy"].endswith("frame-ancestors " + " ".join(NOTEBOOKS))
    assert lab in notebook._users  # the second one still uses it
    second.close()
    second.close()
    assert not notebook._users
    with pytest.raises(ConnectionRefusedError):
        got(lab, "/copy")
    assert "close() ends it" in str(shown)


# In a process of its own: notebook kernels open sockets and threads that outlive them, and warn about it.
CELL = """
import nbformat
from nbclient import NotebookClient
cell = nbformat.v4.new_code_cell('import regard; regard.lab.show("copy", keys=[[1, 0], [0, 1]], to=0)')
book = nbformat.v4.new_notebook(cells=[cell])
NotebookClient(book, timeout=600, kernel_name="python3").execute()  # ends when the kernel has ended
print(book.cells[0].outputs[0]["data"]["text/html"])
"""


@pytest.mark.slow
def test_a_cell_of_a_notebook_shows_the_page_and_the_kernel_ends(tmp_path):
    pytest.importorskip("nbclient", reason="needs nbclient and ipykernel")
    pytest.importorskip("ipykernel", reason="needs nbclient and ipykernel")
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [sys.executable, "-c", CELL], capture_output=True, text=True, timeout=PATIENCE, env=environment, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.startswith('<iframe src="http://127.0.0.1:')
    assert "keys=1%2C0%3B+0%2C1" in done.stdout


def test_a_notebook_on_another_machine_gets_a_page_of_one_piece():
    shown = rooms.show("copy", keys=[[1, 0], [0, 1]], to=0, live=False, height=500)
    assert shown._repr_html_().startswith('<iframe srcdoc="')
    assert 'height="500"' in shown._repr_html_()
    assert shown.address == ""
    assert "in one file" in str(shown)
    assert not notebook._users


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"page": "sphere"}, "There is no page 'sphere' of the lab; there are copy, noise"),
        ({"height": 5}, "height must be from 100 to 10000 pixels, not 5"),
        ({"colour": "red"}, "The address has 'colour', which this page does not know"),
        ({"keys": [[[1.0]]]}, "A word of a page has rows of numbers at most, not 3 dimensions"),
        ({"keys": object()}, "A word of a page is text, a number, or rows of numbers, not <object"),
        ({"hide": ["proofs"]}, "There is nothing called 'proofs' to hide"),
    ],
)
def test_a_mistake_is_said_in_the_notebook_and_leaves_nothing_running(words, said):
    with pytest.raises(InputError, match=said):
        rooms.show(**words)
    assert not notebook._users
