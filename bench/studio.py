"""The time from the event of a slider to the frame that shows its results, in Chromium.

``python bench/studio.py [MOVES]``: the README's scenario, of which a delay is moved. Once one move
after the other, and once as a hand drags, with an event every 16 ms, of which the latest wins.
"""

import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parent.parent
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu"]
MOVES = int(sys.argv[1]) if len(sys.argv) > 1 else 200

MOVE = """async ([moves, every]) => {
    const label = "edge-isp delay";
    const named = [...document.querySelectorAll("#sliders label")];
    const input = named.find((each) => each.textContent === label).querySelector("input");
    input.focus();
    for (let move = 0; move < moves; move++) {
        input.value = 180 + (move % 40);
        input.dispatchEvent(new Event("input"));
        await new Promise((done) => setTimeout(done, every));
    }
}"""


SHOWN = ("slider to chart", "slider to verdicts")


def measure(page: Page, moves: int, every_ms: int) -> dict[str, list[float]]:
    """Milliseconds from each event whose result was drawn, sorted, for each of `SHOWN`.

    While one drags, the event is the first one that the drawn run takes account of.
    """
    page.evaluate("performance.clearMeasures()")
    page.evaluate(MOVE, [moves, every_ms])
    page.wait_for_timeout(1000)
    entries = "name => performance.getEntriesByName(name).map((each) => each.duration)"
    return {name: sorted(page.evaluate(entries, name)) for name in SHOWN}


def main() -> None:
    text = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)[0]
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        file.write(text)
        file.flush()
        command = [Path(sys.executable).parent / "perhop", "studio", file.name, "--no-browser"]
        with (
            subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
            sync_playwright() as playwright,
        ):
            assert server.stdout is not None
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            page = browser.new_page(viewport={"width": 1400, "height": 900})
            page.goto(server.stdout.readline().strip())
            page.wait_for_selector(".verdicts li")
            measure(page, 10, 200)
            print(f"{'ms':42} drawn  median    p95")
            for name, every in (("one after the other", 150), ("dragged", 16)):
                for shown, found in measure(page, MOVES, every).items():
                    middle, high = statistics.median(found), found[int(0.95 * len(found))]
                    said = f"{shown}, {name}"
                    print(f"{said:42} {len(found):5} {middle:7.0f} {high:6.0f}")
            browser.close()
            server.terminate()


if __name__ == "__main__":
    main()
