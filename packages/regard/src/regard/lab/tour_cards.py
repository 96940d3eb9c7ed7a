"""The cards of the tour, in order: what docs/tutorial.md asks a reader to do in the lab, step by step."""

from __future__ import annotations

from regard.lab.copy_state import STARTS
from regard.lab.tour import Card, PageView, Task

HEXAGON = STARTS["hexagon"][1].replace(" ", "")
SQUARE = "1,1;-1,1;-1,-1;1,-1;"
TRIANGLE = "-1.2,-0.8;1.4,-0.8;0,1.4;"


def _weight(scene: PageView, key: int) -> float:
    keys = scene.picture["keys"]
    return float(keys[key]["weight"]) if key < len(keys) else 0.0


def _ceiling(scene: PageView, key: int) -> float:
    """The most that a key can get; 0 where there is no such key, or nobody could find out."""
    keys = scene.picture["keys"]
    return float(keys[key]["ceiling"] or 0.0) if key < len(keys) else 0.0


def _lead(scene: PageView) -> float:
    """How far the score of key 0 is ahead of key 1's."""
    keys = scene.picture["keys"]
    return float(keys[0]["score"] - keys[1]["score"]) if len(keys) == 2 else 0.0


def _took_the_shortest(scene: PageView) -> bool:
    own, shortest = scene.numbers["own-norm"], scene.numbers.get("shortest-norm", -1.0)
    return abs(own - shortest) <= 1e-6 * own and scene.numbers["own-attention"] >= 0.99


def _another_pair_shares(scene: PageView) -> bool:
    pair = scene.word_list("to")
    return len(pair) == 2 and scene.has_changed("to") and "shortest-norm" in scene.numbers


def _translated_own_sentence(scene: PageView) -> bool:
    """A translation, and not of a sentence that the page itself offers: it begins with one."""
    offered = scene.picture.get("examples", [])
    return bool(scene.picture.get("said")) and scene.has_changed("text") and scene.words["text"] not in offered


CARDS = (
    Card(
        name="one-key",
        step=1,
        page="copy",
        title="One key, one query",
        start={"space": "plane", "keys": "1,0", "q": "2,1", "to": "0"},
        tasks=(
            Task(
                do="Take attention away from the only key: drag the query q to the other side, where the score is "
                "below 0.",
                did=lambda scene: len(scene.picture["keys"]) == 1 and scene.picture["keys"][0]["score"] < 0,
                shown={"q": "-3,1"},
            ),
        ),
        seen="The score is negative, and the weight is still 1.",
        why="Weights are shares of a cake that is always eaten up: they sum to 1, and here there is only one. "
        "Attention "
        "never says 'nothing here'.",
    ),
    Card(
        name="differences",
        step=2,
        page="copy",
        title="Only differences count",
        start={"space": "plane", "keys": "1,0;0,1", "q": "3,1", "to": "0"},
        tasks=(
            Task(
                do="Drag q along the diagonal, up and to the right, until its norm is above 5.",
                did=lambda scene: scene.numbers["own-norm"] > 5 and abs(_lead(scene) - 2) <= 0.4,
                shown={"q": "6,4"},
            ),
            Task(
                do="Drag it across the diagonal, until key 1 has more weight than key 0.",
                did=lambda scene: _lead(scene) < 0,
                shown={"q": "1,3"},
            ),
        ),
        seen="Along the diagonal both scores grow and the weights stay; across it they change.",
        why="The same number added to every score multiplies every exponential by the same factor, which cancels. "
        "Only "
        "differences of scores count; half of this tour is that sentence.",
    ),
    Card(
        name="copying",
        step=3,
        page="copy",
        title="Copying, and its price",
        start={"space": "plane", "keys": SQUARE + "1.6,0.2", "q": "3,2", "to": "4"},
        tasks=(
            Task(
                do="Press 'Take the shortest query': your query becomes the one that copies key 4.",
                did=_took_the_shortest,
                shown={"do": "use shortest"},
            ),
            Task(
                do="Drag key 4 to the left, towards the edge of the square, until the shortest norm is above 25.",
                did=lambda scene: scene.words["to"] == "4" and scene.numbers.get("shortest-norm", 0.0) > 25,
                shown={"keys": SQUARE + "1.15,0.2"},
            ),
        ),
        seen="The nearer key 4 comes to the others, the longer the shortest query.",
        why="The query must put key 4 ahead of every other by about ln(1/ε), and what it gains per unit of length "
        "is how "
        "far the key stands out. Half as far out: twice as long.",
    ),
    Card(
        name="sharing",
        step=4,
        page="copy",
        title="Sharing on a hexagon",
        start={"space": "plane", "keys": HEXAGON, "q": "3,2", "to": "0,1"},
        tasks=(
            Task(
                do="Choose another pair of neighbours, such as 1 and 2: click rows of the table, or press space on "
                "a point.",
                did=_another_pair_shares,
                shown={"to": "1,2"},
            ),
            Task(
                do="Choose two keys that are not neighbours, such as 0 and 3.",
                did=lambda scene: len(scene.word_list("to")) == 2 and "bound" in scene.numbers,
                shown={"to": "0,3"},
            ),
        ),
        seen="Neighbours can share; of others no query gives each nearly one half, however long.",
        why="Keys share when some direction puts them first and all at the same height: when they are all the keys "
        "on one "
        "face of the hull. Between 0 and 3 there is always a key at the side that is ahead of both.",
    ),
    Card(
        name="sharing-in-space",
        step=4,
        page="copy",
        title="Three axes in space",
        start={"space": "sphere", "keys": "0,0;90,0;0,90", "q": "30,20,4", "to": "0,1", "view": "25,20"},
        tasks=(
            Task(
                do="Drag the background to turn the sphere (or give the drawing the focus and press an arrow key).",
                did=lambda scene: scene.has_changed("view"),
                shown={"view": "55,30"},
            ),
            Task(do="Choose another pair of keys.", did=_another_pair_shares, shown={"to": "1,2"}),
        ),
        seen="Here every pair can share.",
        why="Each pair of the three keys is an edge of their triangle, and all three are its face. Orthonormal keys "
        "are "
        "the textbooks' favourite for this reason.",
    ),
    Card(
        name="ceiling",
        step=5,
        page="copy",
        title="A key that can never win",
        start={"space": "plane", "keys": TRIANGLE + "0,0", "q": "0,4", "to": "3"},
        tasks=(
            Task(
                do="Drag q wherever you like: try to give key 3 more than a quarter of the attention (a short q "
                "does best).",
                did=lambda scene: _weight(scene, 3) >= 0.24 and _ceiling(scene, 3) < 0.5,
                shown={"q": "0,0"},
            ),
            Task(
                do="Drag key 3 over an edge of the triangle, and look at its ceiling.",
                did=lambda scene: _ceiling(scene, 3) > 0.5,
                shown={"keys": TRIANGLE + "0,-0.9"},
            ),
        ),
        seen="At the very moment it leaves the triangle its ceiling jumps to 1, and the query that does it is "
        "enormously long.",
        why="Inside, the key is an average of the others, so its score is the same average of theirs, and an "
        "average is "
        "never above the largest.",
    ),
    Card(
        name="one-head",
        step=6,
        page="noise",
        title="Noise: one head swings",
        start={"keys": "10", "spread": "0.5", "iso": "0.01", "scale": "2"},
        tasks=(
            Task(
                do="Slide the scale T to 20 or more, and watch the law of the weight of key 0.",
                did=lambda scene: float(scene.words["scale"]) >= 20,
                shown={"scale": "20"},
            ),
        ),
        seen="With one head the weight sits at 0 or at 1; only its average is one half.",
        why="One head needs an equation between two scores, and noise breaks equations. A longer query multiplies the "
        "difference, so it makes things worse.",
    ),
    Card(
        name="two-heads",
        step=7,
        page="noise",
        title="Two heads are steady, mostly",
        start={"keys": "10", "spread": "0.5", "iso": "0.01", "scale": "20"},
        tasks=(
            Task(
                do="Slide the scale down until one head has the smaller error of the two.",
                did=lambda scene: scene.numbers["one-error"] < scene.numbers["two-error"],
                shown={"scale": "2"},
            ),
            Task(
                do="Slide the spread of key 0 to nothing: no key points backwards any more.",
                did=lambda scene: float(scene.words["spread"]) == 0,
                shown={"spread": "0"},
            ),
        ),
        seen="Short queries hardly choose at all, and there one head is as good as two. Without spread no draw is "
        "crossed out.",
        why="Two heads need inequalities only, which small noise does not break. What remains are the draws whose key "
        "points backwards; their share does not depend on the scale.",
    ),
    Card(
        name="order",
        step=8,
        page="order",
        title="Order",
        start={"text": "the dog bit the man", "order": "0,4,2,3,1", "positions": "off"},
        tasks=(
            Task(
                do="Shuffle the words, or drag one to another place, with positions off.",
                did=lambda scene: scene.words["positions"] == "off" and scene.has_changed("order"),
                shown={"order": "4,3,2,1,0"},
            ),
            Task(
                do="Switch 'positions added' on.",
                did=lambda scene: scene.words["positions"] == "on" and any(scene.picture["differs"]),
                shown={"order": "0,4,2,3,1", "positions": "on"},
            ),
            Task(
                do="Lower the dimension until two positions are the same in bfloat16.",
                did=lambda scene: scene.words["format"] != "real" and scene.numbers.get("nearest") == 0,
                shown={"dim": "2"},
            ),
        ),
        seen="Without positions every word keeps its output, wherever it stands. With them it does not, unless two "
        "positions "
        "round to the same numbers.",
        why="A layer adds up over its inputs, and sums have no order. In dimension 2 a position is one clock hand: "
        "710 steps "
        "are nearly 113 full turns, and bfloat16 cannot see the difference.",
    ),
    Card(
        name="rank",
        step=9,
        page="rank",
        title="Rank",
        start={"matrix": "example:gaussian", "rank": "4"},
        tasks=(
            Task(
                do="Slide the rank until at least 90 % of the energy is kept.",
                did=lambda scene: scene.numbers["energy"] >= 90,
                shown={"rank": "14"},
            ),
            Task(
                do="Type a matrix of your own, such as 3,0; 0,2; 0,0, and press 'Read it'.",
                did=lambda scene: not scene.words["matrix"].startswith("example:"),
                shown={"matrix": "3,0; 0,2; 0,0", "rank": "1"},
            ),
        ),
        seen="A random matrix gives little away: its singular values fall slowly.",
        why="The error of the best cut is the first singular value left out. The problem set promises the "
        "Frobenius norm over √k, which is exact only where k of them are equal and the rest are 0.",
    ),
    Card(
        name="translator",
        step=10,
        page="translator",
        title="All of it at once: a translator",
        tasks=(
            Task(
                do="Type a German sentence of your own, and see which words each written word read.",
                did=_translated_own_sentence,
                shown={"text": "ein Kind sieht den Hund"},
            ),
        ),
        seen="Every word of the translation read all words of the sentence, some much more than others.",
        why="Keys, queries and values are learned here, and nothing else is new: the weights are the softmax of the "
        "first "
        "card.",
    ),
    Card(
        name="claims",
        step=11,
        page="claims",
        title="Your homework, checked",
        start={"claim": "copying-condition", "show": "picture"},
        tasks=(
            Task(
                do="Read the statement, and guess: does it hold, or does it fail?",
                did=lambda scene: scene.words["claim"] == "copying-condition" and scene.words["show"] != "picture",
                shown={"show": "verdict"},
            ),
            Task(
                do="Press 'Prove it', and read the proof with its numbers.",
                did=lambda scene: scene.words["claim"] == "copying-condition" and scene.words["show"] == "proof",
                shown={"show": "proof"},
            ),
        ),
        seen="That was the whole tour.",
        why="A verdict here is proved, or comes with a counterexample to paste. The lines below the page check an "
        "answer "
        "of your own the same way.",
    ),
)
