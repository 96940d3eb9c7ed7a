"""The server answers this machine's own browser and nobody else; what it is asked is read with care."""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lab_browser import lab
from processes import PATIENCE, wait_until
from regard.errors import CouldNotFindOut, InputError
from regard.lab import server
from regard.lab.copy_state import Plane, Sphere, hull_edges
from regard.lab.page import Answer, State, format_rows, mathml, pages, shortest_text, tex
from regard.lab.server import WAITING, Lab
from regard.web import local_server
from regard.web.background_tasks import BackgroundTasks
from regard.web.local_server import LARGEST

__all__ = ["lab"]  # a fixture
patient = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def request(lab, method, path, *, body=None, **headers):
    """The status, headers and body of an answer; every header may be wrong."""
    connection = http.client.HTTPConnection("127.0.0.1", lab.port, timeout=PATIENCE)
    headers = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.putrequest(method, path, skip_host="Host" in headers)
    for name, value in {"Cookie": lab.access.cookie.partition(";")[0], **headers}.items():
        connection.putheader(name, value)
    if body is not None and "Content-Length" not in headers:
        connection.putheader("Content-Length", str(len(body)))
    connection.endheaders(body)
    answer = connection.getresponse()
    text = answer.read()
    connection.close()
    return answer.status, answer.headers, text


@contextmanager
def running_lab():
    """A lab of one test's own."""
    with Lab(port=0) as own:
        threading.Thread(target=own.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield own
        own.shutdown()


def ask(lab, name, words, **headers):
    origin = {"Origin": f"http://127.0.0.1:{lab.port}"}
    return request(lab, "POST", f"/ask/{name}", body=json.dumps(words).encode(), **{**origin, **headers})


def sentence(answer):
    return json.loads(answer[2])["error"]


# Who may ask ---------------------------------------------------------------------------------------------------------


def test_it_listens_on_the_loopback_address_only(lab):
    assert lab.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "localhost.evil:{port}"]
)
def test_another_host_name_is_refused(lab, host):
    host = host.format(port=lab.port)
    for answer in (request(lab, "GET", "/", Host=host), ask(lab, "copy", {}, Host=host, Origin=f"http://{host}")):
        assert answer[0] == 403
        assert sentence(answer) == f"The lab answers at {lab.address} only."


def test_localhost_is_us(lab):
    assert request(lab, "GET", "/", Host=f"localhost:{lab.port}")[0] == 200


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", None]
)
def test_a_question_from_another_page_is_refused(lab, origin):
    headers = {} if origin is None else {"Origin": origin.format(port=lab.port)}
    answer = request(lab, "POST", "/ask/copy", body=b"{}", **headers)
    assert answer[0] == 403
    assert sentence(answer) == "Only a page of this lab may ask it; another one did."


def test_pages_may_load_nothing_from_elsewhere_and_stand_in_no_frame(lab):
    for path in ("/", "/lab.js", "/copy?eps=1"):
        headers = request(lab, "GET", path)[1]
        policy = headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'self';")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"


def test_no_file_of_ours_names_another_place():
    for file in server.STATIC.rglob("*"):
        if file.suffix in server.KINDS and file.suffix != ".woff2":  # the font's licence names its authors' address
            text = file.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
            assert "http" not in text, file
            assert "innerHTML" not in text
            assert "Math.exp" not in text or file.name == "attention.js"  # the one place with arithmetic


def test_without_the_cookie_there_is_a_page_that_says_how_to_open_it(lab):
    """Another account of this machine can send any Host and Origin; it gets no page and no answer."""
    for cookie in ("", f"regard-{lab.port}=guess", "\x7f;=;;", f"regard-{lab.port}={lab.access.token}"):
        status, headers, body = request(lab, "GET", "/rank?matrix=secret.npy", Cookie=cookie)
        assert status == 403
        assert b"token=" in body
        assert b'href="/rank?matrix=secret.npy"' in body
        assert lab.access.token.encode() not in body
        assert headers["Content-Security-Policy"].startswith("default-src 'self'")
        answer = ask(lab, "copy", {}, Cookie=cookie)
        assert answer[0] == 403
        assert sentence(answer).startswith("This browser has not opened the lab yet")


def test_the_token_lets_in_once_and_leaves_the_address(lab):
    status, headers, _ = request(lab, "GET", f"/copy?eps=0.2&token={lab.access.token}&to=0", Cookie="")
    assert (status, headers["Location"]) == (303, "/copy?eps=0.2&to=0")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert lab.access.token not in cookie
    assert request(lab, "GET", headers["Location"], Cookie=cookie.partition(";")[0])[0] == 200
    assert lab.opening_address == f"{lab.address}?token={lab.access.token}"
    assert lab.access.token not in lab.address


@pytest.mark.parametrize("cookie", ['x="' + '\\"' * 32_000 + '"', "a=;" * 21_000, "a" * 64_000, "=" * 64_000])
def test_a_large_cookie_costs_nothing(lab, cookie):
    """Python's own reader of cookies took eight seconds for the first one, before any secret was compared."""
    began = time.process_time()
    assert not lab.access.has_cookie(cookie)
    assert lab.access.has_cookie(f"{cookie}; {lab.access.cookie.partition(';')[0]}")
    assert time.process_time() - began < 0.5


@pytest.mark.parametrize("path", ["/copy?token=guess", "/copy?token={token}&token={token}", "/?token="])
def test_a_wrong_token_opens_nothing(lab, path):
    status, headers, _ = request(lab, "GET", path.format(token=lab.access.token), Cookie="")
    assert status == 403
    assert "Set-Cookie" not in headers


def test_a_right_token_sends_nobody_elsewhere(lab):
    for path in ("//evil.example/", "/\\evil.example", "///evil.example"):
        status, headers, _ = request(lab, "GET", f"{path}?token={lab.access.token}", Cookie="")
        assert status in (303, 400)
        assert not str(headers["Location"]).startswith(("//", "/\\", "http"))


def test_nothing_is_computed_for_another_site(lab, monkeypatch):
    """An image on a foreign page points here: no cookie comes with it, and even with one nothing is begun."""
    begun = []
    monkeypatch.setattr(lab, "begin_answer", lambda name, words: begun.append(name))
    for site in ("cross-site", "same-site"):
        assert request(lab, "GET", "/copy", Sec_Fetch_Site=site)[0] == 200
    assert begun == []
    assert request(lab, "GET", "/copy", Sec_Fetch_Site="same-origin")[0] == 200
    assert request(lab, "GET", "/copy", Sec_Fetch_Site="none")[0] == 200
    assert begun == ["copy", "copy"]


def test_only_files_below_the_folders_are_opened(tmp_path, monkeypatch):
    inside, outside = tmp_path / "mine", tmp_path / "theirs"
    inside.mkdir()
    outside.mkdir()
    np.save(inside / "a.npy", np.eye(2))
    np.save(outside / "a.npy", np.eye(2))
    (inside / "link.npy").symlink_to(outside / "a.npy")
    monkeypatch.chdir(inside)
    with Lab(port=0) as server_, Lab(port=0, folders=[inside, outside]) as wider:
        assert server_.answer("rank", {"matrix": "a.npy"})["numbers"]
        assert wider.answer("rank", {"matrix": str(outside / "a.npy")})["numbers"]
        elsewhere = (str(outside / "a.npy"), "../theirs/a.npy", "/etc/shadow", "/no/such/file", "/proc/self/environ")
        for path in (*elsewhere, "link.npy"):
            with pytest.raises(InputError, match=r"The lab opens files below .*mine only; start it with --folder DIR"):
                server_.answer("rank", {"matrix": path})


@pytest.mark.slow
def test_a_burst_of_questions_is_answered_whole(lab):
    """600 at once: each is answered, or told that too many wait."""
    page = replace(lab.pages["copy"], answer=lambda state: Answer(picture={}, python="", shell=""))
    cards, lab.pages, lab.cards = lab.cards, {**lab.pages, "copy": page}, ()
    try:
        with ThreadPoolExecutor(100) as pool:
            answers = list(pool.map(lambda _: ask(lab, "copy", {})[0], range(600)))
    finally:
        lab.pages, lab.cards = pages(), cards
    assert set(answers) <= {200, 422}
    assert answers.count(200) > 0


def test_the_queue_is_bounded_and_whoever_left_is_passed_over(lab):
    with lab.alone, ThreadPoolExecutor(WAITING) as pool:
        waiting = [pool.submit(lab.answer, "copy", {}, wanted=lambda: False) for _ in range(WAITING)]
        while lab.waiting._value:
            time.sleep(0.01)
        with pytest.raises(CouldNotFindOut, match="Too many questions wait for an answer"):
            lab.answer("copy", {})
        lab.alone.release()  # their turn, one after another
        assert all("Nobody waits" in str(one.exception(timeout=PATIENCE)) for one in waiting)
        lab.alone.acquire()


def test_warming_up_begins_with_the_first_page_and_waits_for_one_process_at_a_time(monkeypatch):
    asked, under_way = [], {"translator": 3, "models": 1}

    def answering(name):
        def answer(state):
            asked.append(name)
            under_way[name] = under_way.get(name, 0) - 1
            return Answer(picture={"running": under_way[name] >= 0}, python="", shell="")

        return answer

    monkeypatch.setattr(server, "PAUSE", 0)
    with Lab(port=0) as cold:
        names, cold.cards = list(cold.pages), ()
        cold.pages = {name: replace(page, answer=answering(name)) for name, page in cold.pages.items()}
        cold.warm_up()
    assert list(dict.fromkeys(asked)) == list(dict.fromkeys([names[0], "translator", *names]))
    assert asked.count("translator") == 4  # until it has come
    assert asked[asked.index("models") :][:2] == ["models", "models"]


# What may be asked ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path", ["/nothing", "/../server.py", "/%2e%2e/server.py", "/pages/../../page.py", "/charts/x.js"]
)
def test_what_is_not_listed_does_not_exist(lab, path):
    assert request(lab, "GET", path)[0] == 404


def test_a_person_gets_a_page_that_leads_to_the_start_and_a_program_gets_json(lab):
    for path, status in (("/nosuch", 404), ("/<script>", 404), ("/copy?eps=5%", 400)):
        shown, headers, page = request(lab, "GET", path, Accept="text/html,application/xhtml+xml,*/*;q=0.8")
        assert (shown, headers.get_content_type()) == (status, "text/html")
        assert b'<a href="/">Go to the start of the lab</a>' in page
        assert b"<script" not in page
        for accept in ("*/*", "application/json"):
            answer = request(lab, "GET", path, Accept=accept)
            assert (answer[0], answer[1].get_content_type()) == (status, "application/json")
    assert sentence(request(lab, "GET", "/nosuch")).startswith("There is no /nosuch here; the pages are copy, ")
    elsewhere = request(lab, "GET", "/", Host="evil.example", Accept="text/html")
    assert (elsewhere[0], f'<a href="{lab.address}">'.encode() in elsewhere[2]) == (403, True)


def exchange(lab, data):
    """All that the lab answers to these bytes, whatever they are."""
    with socket.create_connection(("127.0.0.1", lab.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(1 << 16), b""))


def head(lab, *lines):
    known = f"Host: 127.0.0.1:{lab.port}\r\nCookie: {lab.access.cookie.partition(';')[0]}\r\n"
    return b"GET /copy HTTP/1.1\r\n" + known.encode() + b"".join(line + b"\r\n" for line in lines) + b"\r\n"


@pytest.mark.parametrize(
    "line",
    [
        *(b"", b"GET", b"GET /", b"GET / HTTP/0.9", b"GET / HTTP/x", b"GET / / HTTP/1.1", b"POST /ask/copy"),
        *(b"GET http://[x HTTP/1.1", b"GET //[x HTTP/1.1", b"GET http://127.0.0.1/ HTTP/1.1", b"GET * HTTP/1.1"),
        *(b"GET /copy?eps=%zz HTTP/1.1", b"GET /copy?eps=%ff HTTP/1.1", b"GET /% HTTP/1.1", b"GET /\xff HTTP/1.1"),
        *(b"GET /\0 HTTP/1.1", b"GET /copy?" + b"a&" * 200 + b" HTTP/1.1", b"GET /" + b"a" * 70_000 + b" HTTP/1.1"),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",  # https by mistake
    ],
)
def test_a_malformed_line_is_refused_and_nothing_is_printed(lab, line, capfd):
    answer = exchange(lab, line + b"\r\nHost: 127.0.0.1:%d\r\n\r\n" % lab.port)
    assert answer.startswith(b"HTTP/1.1 4")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "line",
    [
        *(b"nonsense", b"X y: z", b"X : y", b": y", b"X: y\r\n z", b"X: \0", b"X: a\rb", b"Host: evil.example"),
        *(b"Content-Length: 1\r\nContent-Length: 2", b"Transfer-Encoding: chunked", b"Content-Type: message/rfc822"),
        *(b"Cookie: " + b"a=;" * 30_000, b"X: y\r\n" * 200, b"\r\n".join([b"X: " + b"y" * 60_000] * 4)),
    ],
)
def test_a_malformed_header_is_refused_and_nothing_is_printed(lab, line, capfd):
    assert exchange(lab, head(lab)).startswith(b"HTTP/1.1 200")
    assert exchange(lab, head(lab, line)).startswith(b"HTTP/1.1 4")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_damaged_requests_are_answered_and_nothing_is_printed(lab, capfd):
    draw = random.Random(5)
    pieces = [b"\r", b"\n", b"\0", b"%", b"[", b"//", b"\\", b"\xff", b":", b";", b"=", b'"', b"?", b"#", b" ", b"\x85"]
    for _ in range(200):
        data = bytearray(head(lab, b"Accept: text/html", b"Content-Length: 2"))
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(data))
            data[place : place + draw.randint(0, 3)] = draw.choice([*pieces, bytes([draw.randrange(256)])])
        assert re.match(rb"HTTP/1\.1 (200|4\d\d|50[15]) ", exchange(lab, bytes(data))), bytes(data)
    assert capfd.readouterr() == ("", "")


def test_a_body_that_is_not_read_is_not_taken_for_a_request(lab):
    inside = head(lab)
    answer = exchange(lab, head(lab, b"Content-Length: %d" % len(inside)) + inside)
    assert answer.count(b"HTTP/1.1 ") == 1


def test_a_request_that_comes_byte_by_byte_holds_nothing_for_long(monkeypatch):
    """Each byte comes in time; the request as a whole does not."""
    monkeypatch.setattr(local_server.Handler, "timeout", 0.3)
    with running_lab() as slow, socket.create_connection(("127.0.0.1", slow.port), timeout=PATIENCE) as connection:
        connection.setblocking(False)
        for _ in range(3_000):
            try:
                connection.send(b"G")
                if connection.recv(1) == b"":
                    return
            except BlockingIOError:
                time.sleep(0.01)
            except OSError:  # closed while we sent
                return
    raise AssertionError("the connection was never closed")


def test_connections_are_bounded(monkeypatch):
    monkeypatch.setattr(local_server, "CONNECTIONS", 2)
    with running_lab() as small, ExitStack() as held:
        place = ("127.0.0.1", small.port)
        for _ in range(2):
            held.enter_context(socket.create_connection(place, timeout=PATIENCE))
        with socket.create_connection(place, timeout=PATIENCE) as third:
            assert third.recv(1) == b""  # closed at once
        held.close()
        wait_until(lambda: small.free_connections._value == 2, "a closed connection is still held")
        assert request(small, "GET", "/copy")[0] == 200


def test_unknown_pages_and_methods(lab):
    answer = ask(lab, "nothing", {})
    assert answer[0] == 404
    assert sentence(answer) == "There is no page 'nothing' to ask."
    status, headers, _ = request(lab, "DELETE", "/")
    assert status == 501
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_a_question_too_long_is_not_read(lab):
    for length in (str(LARGEST + 1), "-1", "many", "9" * 5000):
        answer = request(lab, "POST", "/ask/copy", Origin=f"http://127.0.0.1:{lab.port}", Content_Length=length)
        assert answer[0] == 413
        assert sentence(answer) == "A question has at most 1,048,576 bytes."


@pytest.mark.parametrize(
    "body", [b"", b"[]", b'{"eps": 1}', b"{", b"\xff", b"[" * 100_000, b'{"a": ' + b"9" * 5000 + b"}"]
)
def test_a_question_is_an_object_of_strings(lab, body):
    answer = request(lab, "POST", "/ask/copy", body=body, Origin=f"http://127.0.0.1:{lab.port}")
    assert answer[0] == 400
    assert sentence(answer) == "A question is a JSON object of strings, the words of the page's address."


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"colour": "red"}, "The address has 'colour', which this page does not know"),
        ({"space": "torus"}, "space must be one of plane, sphere, not 'torus'."),
        ({"keys": "1,0; 2"}, "keys must be at most 10 rows of 2 numbers, such as 1,0; 0,1, not a row '2'."),
        ({"keys": ";".join(["1,0"] * 64)}, "keys must be at most 10 rows of 2 numbers, such as 1,0; 0,1, not 64 rows."),
        ({"keys": "1,nan"}, "keys must be a number from -360 to 360, not 'nan'."),
        ({"q": "1"}, "q must be 2 numbers separated by commas, not '1'."),
        ({"to": "9" * 5000}, "to must be whole numbers from 0 to 4"),
        ({"to": "7"}, "to must be whole numbers from 0 to 4, not '7'."),
        ({"do": "move 9 0 0"}, "There is no key 9; keys are counted from 0 to 4."),
        ({"do": "nudge 1 sideways"}, "A point moves left, right, up, down, not 'sideways'."),
        ({"do": "dance"}, "The page cannot do 'dance' here."),
        ({"to": "", "do": "use shortest"}, "There is no shortest query to take: choose keys that a query can serve."),
        ({"keys": "1,0", "to": "", "do": "remove"}, "The page cannot do 'remove' here."),
        ({"keys": "; ".join(["0,0"] * 10), "do": "add"}, "The drawing has room for 10 keys; take one away first."),
    ],
)
def test_every_mistake_in_an_address_is_one_sentence(lab, words, said):
    answer = ask(lab, "copy", words)
    assert answer[0] == 400
    assert sentence(answer).startswith(said)


def test_whole_numbers_and_ranges(lab):
    assert sentence(ask(lab, "noise", {"keys": "2.5"})) == "keys must be a whole number from 2 to 20, not '2.5'."
    assert sentence(ask(lab, "noise", {"scale": "1e9"})) == "scale must be a number from 0.5 to 60, not '1e9'."


def test_infinities_survive_json():
    assert json.loads(local_server._json_bytes({"x": np.array([1.0, np.inf]), "y": np.bool_(True)})) == {
        "x": [1.0, "inf"],
        "y": True,
    }


def test_a_page_that_fails_says_so_and_the_lab_goes_on(lab, monkeypatch):
    def broken(state):
        raise KeyError("nobody thought of this")

    monkeypatch.setitem(lab.pages, "copy", replace(lab.pages["copy"], answer=broken))
    monkeypatch.setattr(lab, "early", None)  # another test may have opened this page, whose answer was begun then
    answer = ask(lab, "copy", {})
    assert answer[0] == 500
    assert "This page of the lab failed (KeyError: 'nobody thought of this')" in sentence(answer)
    assert ask(lab, "noise", {"keys": "2"})[0] == 200


def test_a_helper_that_died_is_told_on_the_page_and_the_next_question_is_answered(lab, monkeypatch):
    tasks = BackgroundTasks("regard.web.background_tasks")

    def answering(state):
        return Answer(picture={"running": tasks.ask("echo", eps=state.text("eps")) is None}, python="", shell="")

    def settled(**words):
        while json.loads((answer := ask(lab, "copy", words))[2]).get("picture", {}).get("running"):
            pass
        return answer

    monkeypatch.setattr(lab, "cards", ())
    monkeypatch.setitem(lab.pages, "copy", replace(lab.pages["copy"], answer=answering))
    assert settled(eps="1")[0] == 200
    tasks._process.kill()
    tasks._process.wait()
    answer = settled(eps="2")
    assert answer[0] == 422
    assert sentence(answer).startswith(
        "The process that works for this page has ended (killed: perhaps memory ran out);"
    )
    assert settled(eps="2")[0] == 200
    tasks.close()


def test_an_answer_begun_early_is_given_once_and_only_to_its_question(lab, monkeypatch):
    asked = []
    whole = lab.pages["copy"]
    counting = replace(whole, answer=lambda state: asked.append(state.text("eps")) or whole.answer(state))
    monkeypatch.setitem(lab.pages, "copy", counting)
    assert request(lab, "GET", "/copy?eps=0.2&to=")[0] == 200
    assert json.loads(ask(lab, "copy", {"eps": "0.2", "to": ""})[2])["state"]["eps"] == "0.2"
    assert asked == ["0.2"]
    assert json.loads(ask(lab, "copy", {"eps": "0.2", "to": ""})[2])["state"]["eps"] == "0.2"
    assert asked == ["0.2", "0.2"]
    assert request(lab, "GET", "/copy?eps=no")[0] == 200
    assert sentence(ask(lab, "copy", {"eps": "no"})) == "eps must be a number from 1e-09 to 1000, not 'no'."


# Pages ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", pages())
def test_a_page_has_both_its_files_and_answers_its_start(lab, name):
    assert f"/pages/{name}.js" in server.static_files()
    status, _, body = ask(lab, name, {})
    assert status == 200
    answer = json.loads(body)
    assert set(answer) == {*Answer(picture={}, python="", shell="").to_dict(), "tour"}
    assert answer["python"]
    assert pages()[name].hint.endswith(".")


def test_actions_change_the_state_and_are_not_kept(lab):
    def after(*actions, **words):
        for action in actions:
            words = lab.answer("copy", {**words, "do": action})["state"]
        return words

    assert after("move 4 9 0.123")["keys"].endswith("2.2,0.12")  # the edge of the drawing
    assert after("move q 0.4 0.2")["q"] == "2,1"
    assert after("norm 5", q="3,4")["q"] == "3,4"
    assert after("norm 5", q="0,0")["q"] == "5,0"
    assert after("choose 4")["to"] == ""
    assert after("choose 0", "choose 2")["to"] == "0,2,4"
    assert after("add")["keys"].endswith("; 0,0")
    assert after("remove")["keys"].count(";") == 3
    assert after("remove")["to"] == ""
    assert after("start three axes", "turn 10 -5")["view"] == "45,10"
    assert after("start three axes", "norm 2")["q"] == "30,20,2"
    assert "do" not in after("start hexagon")


def test_keys_that_coincide_share_their_ceiling(lab):
    answer = lab.answer("copy", {"keys": "1,0; 1,0; 0,1", "to": "0"})
    assert [round(key["ceiling"], 6) for key in answer["picture"]["keys"]] == [0.5, 0.5, 1.0]
    assert "No query gives key 0" in answer["say"][0]


def test_one_key_and_nobody_chosen(lab):
    answer = lab.answer("copy", {"keys": "1,1", "to": ""})
    assert answer["picture"]["keys"][0]["weight"] == 1
    assert "Choose a key" in answer["say"][0]
    assert "design copy" not in answer["shell"]


# State and scene -----------------------------------------------------------------------------------------------------


@patient
@given(st.lists(st.lists(st.floats(-1e5, 1e5), min_size=2, max_size=2), min_size=1, max_size=7))
def test_rows_come_back_from_the_address_as_they_went_in(rows):
    state = State({"keys": format_rows(rows)}, start={"keys": ""})
    assert state.rows("keys", width=2, most=7) == rows


@patient
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_numbers_keep_every_digit(value):
    assert float(shortest_text(value)) == value


@patient
@given(st.floats(-180, 180), st.floats(-80, 80), st.floats(-1.1, 1.1), st.floats(-1.1, 1.1))
def test_a_point_put_on_the_sphere_is_seen_where_it_was_put(longitude, latitude, x, y):
    sphere = Sphere(longitude, latitude)
    row = sphere.put([0.0, 0.0], x, y)
    places, behind = sphere.place(sphere.keys([row]))
    assert np.abs(places[0] - [x, y]).max() < 0.01  # a tenth of a degree
    assert not behind[0]


@patient
@given(st.lists(st.floats(-5, 5), min_size=3, max_size=3).filter(lambda q: np.linalg.norm(q) > 1e-3))
def test_a_query_on_the_sphere_survives_its_words(query):
    sphere = Sphere(10, 20)
    assert np.abs(sphere.query(sphere.words(np.array(query))) - query).max() < 1e-12


def test_beyond_the_rim_a_point_stays_on_it():
    row = Sphere(0, 0).put([0.0, 0.0], 9.0, 0.0)
    assert row == [90.0, 0.0]
    assert Sphere(0, 0).step([179.0, 89.0], 1, 1) == [-179.0, 90.0]
    assert Sphere(30, 40).words(np.zeros(3)) == [30, 40, 0.0]


def test_the_circles_of_a_sphere_are_seen_from_the_front_on_its_disc():
    circles = Sphere(25, 20).circles()
    assert len(circles) == 3
    for circle in circles:
        assert np.linalg.norm(circle, axis=1).max() <= Sphere.radius + 1e-3
        assert np.linalg.norm(np.diff(circle, axis=0), axis=1).max() < 0.2  # one piece
    assert Plane().circles() == []


def test_hull_edges():
    square = np.array([[0, 0], [1, 0], [1, 1], [0, 1], [0.4, 0.5]])
    assert hull_edges(square) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert hull_edges(np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]])) == []
    assert Plane().words(np.array([1.0, 2.0])) == [1.0, 2.0]


def test_formulas_are_mathml():
    assert mathml(rf"x = {tex(-2.5e-7)}").count("<math") == 1
    assert tex(-2.5e-7) == r"-2.5\cdot 10^{-7}"


# Starting and stopping -----------------------------------------------------------------------------------------------


def test_a_port_that_is_taken(lab):
    with pytest.raises(InputError, match=f"Port {lab.port} cannot be used .*leave --port out for a free one"):
        Lab(port=lab.port)
    with pytest.raises(InputError, match="A port is a whole number from 0 to 65535, not 70000"):
        Lab(port=70000)


def test_without_the_default_port_a_free_one_is_taken(lab, monkeypatch):
    monkeypatch.setattr("regard.web.local_server.PORT", lab.port)
    with Lab() as other:
        assert other.port != lab.port


def test_what_is_not_installed_is_named(monkeypatch):
    for name in ("uplot", "latex2mathml"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        InputError, match=r"The lab needs uplot and latex2mathml, which are not installed: pip install 'regard\[lab\]'"
    ):
        Lab(port=0)


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_says_where_it_is_and_stops_when_told(ending, tmp_path):
    (tmp_path / "random.py").write_text("raise SystemExit('a file of the folder was run')")
    command = [sys.executable, "-u", "-m", "regard", "lab", "--no-browser", "--port", "0"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        first = running.stdout.readline()
        assert first.startswith("The lab is at http://127.0.0.1:")
        assert "/?token=" in first
        os.kill(running.pid, ending)
        rest, errors = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
        running.wait()
    assert rest.strip() == "Stopped."
    assert errors == ""
    assert running.returncode == 0
