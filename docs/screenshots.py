"""Takes the screenshots of docs/mlflow.md: the real UI, in a real headless browser.

    make run && .venv/bin/python docs/screenshots.py

Needs Chromium (Debian: apt-get install chromium). Starts the UI on a free port of this
machine, opens the run list and the compare page of the runs of the sweep, and ends the UI.
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


def shoot(browser: str, url: str, to: Path, size: str) -> None:
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
                f"--screenshot={to}",
                url,
            ],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=180,
        )
    print(f"{to}: {to.stat().st_size} bytes")


def main() -> None:
    """Start the UI, find the runs, take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sweep", default="main", help="label of the runs to compare")
    parser.add_argument("--experiment", default="elastrace")
    options = parser.parse_args()
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        raise SystemExit("no Chromium found; install it (Debian: apt-get install chromium)")
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
        name = urllib.parse.quote(options.experiment)
        with urllib.request.urlopen(
            f"{base}/api/2.0/mlflow/experiments/get-by-name?experiment_name={name}", timeout=30
        ) as answer:
            experiment = json.load(answer)["experiment"]["experiment_id"]
        found = ask(
            base,
            "runs/search",
            {
                "experiment_ids": [experiment],
                "filter": f"tags.sweep = '{options.sweep}'",
                "order_by": ["tags.engine ASC", "tags.scheduler ASC"],
            },
        )
        runs = [run["info"]["run_id"] for run in found.get("runs", [])]  # type: ignore[attr-defined]
        if not runs:
            raise SystemExit(f"MLflow has no runs of sweep {options.sweep!r}; run `make run`")
        query = urllib.parse.urlencode(
            {"runs": json.dumps(runs), "experiments": json.dumps([experiment])}
        )
        IMAGES.mkdir(exist_ok=True)
        shoot(
            browser,
            f"{base}/#/experiments/{experiment}/runs?searchFilter="
            + urllib.parse.quote(f"tags.sweep = '{options.sweep}'"),
            IMAGES / "mlflow_runs.png",
            "2000,900",
        )
        shoot(browser, f"{base}/#/compare-runs?{query}", IMAGES / "mlflow_compare.png", "2000,1500")
    finally:
        server.terminate()
        server.wait(timeout=30)


if __name__ == "__main__":
    main()
