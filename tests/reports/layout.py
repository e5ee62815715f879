"""What is wrong with how a browser lays a page out: asks headless Chromium, which runs the page."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from html import unescape
from pathlib import Path

_EARLY = """
<script>
const said = [];
addEventListener('error', (event) => said.push('error: ' + (event.message
  || event.target.outerHTML.slice(0, 80))), true);
console.error = (...words) => said.push('error: ' + words.join(' '));
</script>
"""
"""Put at the beginning of a page, so that no error of it is missed."""
_SCRIPT = """
const wrong = [];
const check = () => {
const own = [];
const named = (one) => one.tagName.toLowerCase() + (one.id ? '#' + one.id : '')
  + (one.className && one.className.baseVal === undefined ? '.' + one.className : '')
  + ' "' + (one.textContent || one.alt || '').trim().slice(0, 40) + '"';
const wide = document.documentElement.clientWidth;
if (document.documentElement.scrollWidth > wide) own.push('the page scrolls sideways: '
  + document.documentElement.scrollWidth + ' of ' + wide);
const scrolls = (one) => one && (['auto', 'scroll'].includes(getComputedStyle(one).overflowX)
  || scrolls(one.parentElement));
for (const one of document.querySelectorAll('body *')) {
  const style = getComputedStyle(one), box = one.getBoundingClientRect();
  if (!box.width || !box.height || style.visibility === 'hidden' || !one.checkVisibility())
    continue;
  if (['hidden', 'clip'].includes(style.overflowX) && one.scrollWidth > one.clientWidth + 1)
    own.push('cut: ' + named(one));
  if (box.right > wide + 1 && !scrolls(one.parentElement)) own.push('sticks out: ' + named(one));
  if (one.tagName === 'IMG' && !(one.complete && one.naturalWidth))
    own.push('no picture: ' + named(one));
}
for (const one of document.querySelectorAll('nav'))  // may scroll, but down alone
  if (one.scrollWidth > one.clientWidth + 1) own.push('cut: ' + named(one));
for (const parent of document.querySelectorAll('main, section, article, header')) {
  let above = null;
  for (const one of parent.children) {
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    if (!box.height || !one.checkVisibility() || style.position === 'absolute'
        || style.float !== 'none') continue;
    if (above && box.top < above.bottom - 1 && box.left < above.right - 1
        && box.right > above.left + 1) own.push('lies over what is above it: ' + named(one));
    above = box;
  }
}
for (const section of document.querySelectorAll('section'))
  if (section.children.length < 2) own.push('nothing in: ' + named(section));
wrong.push(...own);
};
check();
const folded = [...document.querySelectorAll('details')];
if (folded.length) {
  for (const one of folded) one.open = true;
  const before = [...wrong];
  wrong.length = 0;
  check();
  const after = wrong.filter((one) => !before.includes(one)).map((one) => 'unfolded, ' + one);
  wrong.splice(0, wrong.length, ...before, ...after);
}
wrong.push(...said.filter((one) => !one.includes('<img')));
document.body.dataset.wrong = JSON.stringify(wrong.slice(0, 20));
"""


def faults(browser: str, page: Path, width: int) -> list[str]:
    """Return the faults of a page in words: what sticks out, is cut, covered, broken or empty.

    The page is looked at folded and unfolded. Errors of its console count too.

    Args:
        browser: Chromium.
        page: an HTML file that needs no other but those beside it.
        width: of the window, in CSS pixels. The page is in a frame of this width, since a window
            cannot be as narrow as a phone.
    """
    with tempfile.TemporaryDirectory() as folder:
        text = page.read_text(encoding="utf-8")
        inner = page.with_name(f".checked-{page.name}")
        outer = Path(folder) / "frame.html"
        report = "parent.postMessage(document.body.dataset.wrong, '*')"
        script = f"<script>addEventListener('load', () => {{ {_SCRIPT}; {report}; }})</script>"
        outer.write_text(
            "<!DOCTYPE html><body><script>addEventListener('message', (event) => {"
            " document.body.dataset.found = event.data; })</script>"
            f'<iframe src="{inner.resolve().as_uri()}" width="{width}" height="2000"'
            ' style="border: 0"></iframe></body>',
            encoding="utf-8",
        )
        try:
            checked = f"{_EARLY}{text}".replace("</body>", f"{script}</body>")
            if text.startswith("<!DOCTYPE html>"):  # which must stay first
                checked = text.replace("<!DOCTYPE html>", f"<!DOCTYPE html>{_EARLY}", 1)
                checked = checked.replace("</body>", f"{script}</body>")
            inner.write_text(checked, encoding="utf-8")
            done = subprocess.run(
                [
                    browser,
                    *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
                    *("--disable-background-networking", "--disable-component-update"),
                    *(f"--user-data-dir={folder}/profile", "--window-size=1600,2200"),
                    *("--virtual-time-budget=30000", "--dump-dom", outer.as_uri()),
                ],
                check=True,
                capture_output=True,
                text=True,
                timeout=180,
            )
        finally:
            inner.unlink(missing_ok=True)
    found = re.search(r'data-found="([^"]*)"', done.stdout)
    assert found is not None, f"{page} has no </body>, or its script did not end"
    wrong: list[str] = json.loads(unescape(found.group(1)))
    return wrong
