"""Measure a server under load, and how soon the playground reacts to a key.

    python benchmarks/serving.py [--clients 200] [--seconds 60]

First one client, then many clients at once; all stream. A `tiny` language model is trained for a few updates first,
because the quality of its text does not matter. `transformers serve` (needs `accelerate`) serves the same weights, one
text after the other and with continuous batching.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from importlib.util import find_spec
from pathlib import Path

TOKENS = 64
PROMPT = "Return the list of all"


def percentiles(values):
    ordered = sorted(values)
    return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] for share in (0.5, 0.99)]


async def one_request(host, port, path, body, seen):
    """Send one request and append (status or error, seconds to the first chunk, seconds in all, chunks) to `seen`."""
    began, first, pieces = time.perf_counter(), None, 0
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    try:
        reader, writer = await asyncio.open_connection(host, port)
        writer.write(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)
        await writer.drain()
        status = (await reader.readline()).split()[1]
        async for line in reader:
            if line.startswith(b"data: {"):
                first = first or time.perf_counter() - began
                pieces += 1
        writer.close()
    except (OSError, IndexError) as error:
        status = repr(error).encode()
    seen.append((status, first, time.perf_counter() - began, pieces))


async def load(address, path, body, clients, seconds):
    """Run clients that send the next request as soon as they have their answer, and print the results."""
    host, port = address.removeprefix("http://").split(":")
    seen, until = [], time.perf_counter() + seconds

    async def client(number):
        while time.perf_counter() < until:
            await one_request(host, int(port), path, {**body, "seed": number}, seen)

    began = time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    took = time.perf_counter() - began
    good = [one for one in seen if one[0] == b"200" and one[1] is not None]
    other = [one[0] for one in seen if one not in good]
    tokens = sum(pieces for *_, pieces in good)
    p50, p99 = percentiles([first for _, first, _, _ in good])
    whole50, whole99 = percentiles([whole for _, _, whole, _ in good])
    print(
        f"{clients:4} clients: {tokens / took:7.0f} tokens/s, first piece p50 {p50:.3f} s p99 {p99:.3f} s, whole p50 "
        f"{whole50:.2f} s p99 {whole99:.2f} s; {len(good)} answers, {len(other)} others {set(other) or ''}"
    )


def started(words, ready):
    """Start a server and return its process as soon as the server answers."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    for _ in range(600):
        try:
            urllib.request.urlopen(ready, timeout=5).read()
            return process
        except OSError:
            time.sleep(0.5)
    process.kill()
    sys.exit(f"{words[0]} did not start")


def measure(name, words, address, ready, body, options):
    process = started(words, ready)
    try:
        asyncio.run(load(address, "/v1/completions", body, 1, 3))  # warm
        print(name)
        for clients in (1, options.clients):
            asyncio.run(load(address, "/v1/completions", body, clients, options.seconds))
    finally:
        process.terminate()
        process.wait()


def keystrokes(run, keys):
    """Measure the time from a key in the playground until all panels are updated, in a browser."""
    from playwright.sync_api import sync_playwright

    import glassformer as gf

    with gf.serve(run, port=0) as serving, sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        page.goto(serving.url)
        page.wait_for_selector("canvas, svg")
        answered, drawn = [], []
        page.on("requestfinished", lambda request: answered.append(request.timing["responseEnd"]))
        field = page.locator("textarea, input[type=text], [contenteditable]").first
        field.fill(PROMPT)
        page.wait_for_timeout(1000)
        answered.clear()
        page.evaluate(
            """() => { window.marks = []; const main = document.querySelector("main");
            document.addEventListener("input", () => { window.began = performance.now(); }, true);
            new MutationObserver(() => { if (window.began) window.marks.push(performance.now() - window.began); })
              .observe(main, { childList: true, subtree: true, attributes: true }); }"""
        )
        for key in keys:
            page.evaluate("() => { window.marks = []; }")
            field.press(key)
            page.wait_for_timeout(600)
            drawn.append(page.evaluate("() => Math.max(...window.marks)"))
        browser.close()
    print(
        f"a key in the playground: the server answers in {statistics.median(answered):.0f} ms (median), all panels "
        f"have moved after {statistics.median(drawn):.0f} ms (median), {max(drawn):.0f} ms at most"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--clients", type=int, default=200, help="start this many clients after the single one (default %(default)s)"
    )
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="measure each load for this many seconds (default %(default)s)"
    )
    options = parser.parse_args()

    import glassformer as gf

    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "tiny"
        gf.train("docstrings", size="tiny", style="gpt2", steps=20, out=run, training={"samples": False})
        body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0.8, "stream": True}
        words = [sys.executable, "-m", "glassformer.cli.main", "serve", str(run), "--port", "18467"]
        address = "http://127.0.0.1:18467"
        measure("glassformer serve", words, address, f"{address}/health", {**body, "model": "tiny"}, options)
        keystrokes(str(run), "abcdefghij klmno")
        if find_spec("accelerate") is None:
            print("transformers serve is left out: pip install accelerate")
            return
        peer, address = str(Path(folder) / "peer"), "http://127.0.0.1:18468"
        gf.export(run, to="hf", folder=peer)
        words = ["transformers", "serve", peer, "--device", "cpu", "--host", "127.0.0.1", "--port", "18468"]
        words[0] = str(Path(sys.executable).with_name(words[0]))
        for more in ([], ["--continuous-batching"]):
            name = " ".join(["transformers serve", *more])
            measure(name, [*words, *more], address, f"{address}/health", {**body, "model": peer}, options)


if __name__ == "__main__":
    main()
