"""Takes screenshots in a real headless browser: of the MLflow UI and of the report site.

    make run && .venv/bin/python docs/screenshots.py
    make report && .venv/bin/python docs/screenshots.py --site results/site/reference --to FOLDER

Needs Chromium (Debian: apt-get install chromium). Without ``--site`` it starts the UI on a free
port of this machine, opens the run list and the compare page of the runs of the sweep (the
pictures of docs/how-to/mlflow.md), and ends the UI. With it, it takes the pages of the site, each
as wide as a desktop and as a phone, and with ``--dark`` as they are at night.
"""

from __future__ import annotations

import argparse
import json
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

IMAGES = Path(__file__).parent / "images"


def ask(base: str, path: str, body: dict[str, object]) -> dict[str, object]:
    """One call of MLflow's REST interface."""
    request = urllib.request.Request(
        f"{base}/api/2.0/mlflow/{path}",
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, object] = json.load(answer)
        return found


def wait_for(base: str, server: subprocess.Popen[bytes], limit_s: float = 90.0) -> None:
    """Until the UI answers; fails when it has ended or the time is up."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit("the MLflow UI ended; run `make ui` to see why")
        try:
            urllib.request.urlopen(f"{base}/health", timeout=5).close()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.5)
        else:
            return
    raise SystemExit(f"the MLflow UI did not answer within {limit_s:.0f} s")


SIZES = {"desktop": "1400,2200", "phone": "390,2200"}
"""Width and height of the pictures of the site, in CSS pixels."""


def shoot(browser: str, url: str, to: Path, size: str, *, dark: bool = False) -> None:
    """One page as a PNG, after its scripts have drawn it."""
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            [
                browser,
                *("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
                *("--disable-quic", "--no-first-run", "--disable-sync"),
                *("--disable-background-networking", "--disable-component-update"),
                f"--user-data-dir={profile}",
                f"--window-size={size}",
                "--virtual-time-budget=30000",
                *(["--blink-settings=preferredColorScheme=0"] if dark else []),
                f"--screenshot={to}",
                url,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=180,
        )
    print(f"{to}: {to.stat().st_size} bytes")


def shoot_site(browser: str, site: Path, to: Path, pages: list[str], *, dark: bool) -> None:
    """Pages of the report, at every width of ``SIZES``; all that lie in its folder by default."""
    to.mkdir(parents=True, exist_ok=True)
    paths = [site / page for page in pages] or sorted(site.glob("*.html"))
    lacking = [path for path in paths if not path.is_file()]
    if lacking or not paths:
        names = ", ".join(map(str, lacking)) or f"{site}/*.html"
        raise SystemExit(f"there is no {names}; draw the site with `make report`")
    for path in paths:
        name = "-".join(path.relative_to(site).with_suffix("").parts)
        for width, size in SIZES.items():
            picture = to / f"{name}-{width}{'-dark' if dark else ''}.png"
            shoot(browser, path.resolve().as_uri(), picture, size, dark=dark)


def main() -> None:
    """Take the pictures that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", default="main", help="label of the runs to compare")
    parser.add_argument("--experiment", default="elastrace")
    parser.add_argument("--site", type=Path, metavar="DIR", help="take the report in this folder")
    parser.add_argument("--pages", nargs="+", default=[], metavar="FILE", help="only these of it")
    parser.add_argument("--to", type=Path, default=IMAGES, metavar="DIR", help="folder of pictures")
    parser.add_argument("--dark", action="store_true", help="prefer dark colours")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium found; install it (Debian: apt-get install chromium)")
    if options.site is not None:
        shoot_site(browser, options.site, options.to, options.pages, dark=options.dark)
        return
    shoot_mlflow(browser, options.sweep, options.experiment, options.to)


def shoot_mlflow(browser: str, sweep: str, experiment_name: str, to: Path) -> None:
    """Start the UI, find the runs of a sweep, take its pictures, end the UI."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    server = subprocess.Popen(
        [sys.executable, "-m", "harness.tracking", "ui", "--port", str(port)],
        stdout=subprocess.DEVNULL,
    )
    try:
        wait_for(base, server)
        name = urllib.parse.quote(experiment_name)
        with urllib.request.urlopen(
            f"{base}/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}", timeout=30
        ) as answer:
            experiment = json.load(answer)["experiment"]["experiment_id"]
        found = ask(
            base,
            "runs/search",
            {
                "experiment_ids": [experiment],
                "filter": f"tags.sweep = '{sweep}'",
                "order_by": ["tags.engine ASC", "tags.scheduler ASC"],
            },
        )
        runs = [run["info"]["run_id"] for run in found.get("runs", [])]  # type: ignore[attr-defined]
        if not runs:
            raise SystemExit(f"MLflow has no runs of sweep {sweep!r}; run `make run`")
        query = urllib.parse.urlencode(
            {"runs": json.dumps(runs), "experiments": json.dumps([experiment])}
        )
        to.mkdir(parents=True, exist_ok=True)
        shoot(
            browser,
            f"{base}/#/experiments/{experiment}/runs?searchFilter="
            + urllib.parse.quote(f"tags.sweep = '{sweep}'"),
            to / "mlflow_runs.png",
            "2000,900",
        )
        shoot(browser, f"{base}/#/compare-runs?{query}", to / "mlflow_compare.png", "2000,1500")
    finally:
        server.terminate()
        server.wait(timeout=30)


if __name__ == "__main__":
    main()
