"""Goes through the dashboard with a keyboard, by WebDriver. Needs nothing beside Python and a chromedriver that runs."""

import argparse
import base64
import json
import pathlib
import time
import urllib.error
import urllib.request

TAB, ENTER, SPACE = "\ue004", "\ue007", " "
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
# What a page may not hide from the keyboard, and what it may not show.
FOCUSED = """
const e = document.activeElement;
if (!e || e === document.body) return null;
const label = e.labels && e.labels.length ? e.labels[0].innerText : '';
return {tag: e.tagName, text: (e.innerText || e.value || '').trim(), label: label.trim(), id: e.id,
        ring: getComputedStyle(e).outlineStyle !== 'none'};
"""


class Browser:
    """A session of a browser of one width and one colour scheme."""

    def __init__(self, driver, width, height, dark):
        self.driver, self.name = driver, f"{width}-{'dark' if dark else 'light'}"
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars", "--disable-gpu"]
        capabilities = {
            "browserName": "chrome",
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }
        started = self.call("POST", "", {"capabilities": {"alwaysMatch": capabilities}})
        self.session = "/" + started["sessionId"]
        # A window cannot be as narrow as a telephone; its metrics can.
        self.cdp("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.cdp("Emulation.setEmulatedMedia", features=[scheme])
        self.said = []

    def call(self, method, path, body=None):
        url = f"{self.driver}/session{getattr(self, 'session', '')}{path}"
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(f"{method} {path}: {error.read().decode()[:400]}") from None

    def cdp(self, command, **params):
        return self.call("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def script(self, text):
        return self.call("POST", "/execute/sync", {"script": text, "args": []})

    def go(self, url):
        self.call("POST", "/url", {"url": url})

    def keys(self, text):
        strokes = [{"type": kind, "value": key} for key in text for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]})

    def title(self):
        return self.script("return document.title")

    def tab_to(self, wanted, most=120):
        """Presses Tab until the element of this text, label or id has the focus."""
        passed = []
        for _ in range(most):
            self.keys(TAB)
            at = self.script(FOCUSED)
            if at is None:
                continue
            assert at["ring"], f"the focus on {at} cannot be seen"
            if wanted in (at["text"], at["label"], at["id"]):
                return at
            passed.append(at["text"] or at["label"] or at["id"])
        raise AssertionError(f"{wanted!r} is not reached with Tab on {self.title()!r}; passed {passed}")

    def follow(self, wanted, leads_to, seconds=60):
        """Goes to a link or button with Tab, presses Enter, waits for the page it leads to."""
        self.tab_to(wanted)
        self.enter(leads_to, seconds)

    def enter(self, leads_to, seconds=60):
        """Presses Enter, waits for the page that this leads to, which may have the title of the one before."""
        self.script("window.before = true")
        self.keys(ENTER)
        self.wait(leads_to, seconds)

    def wait(self, title, seconds=60):
        until = time.monotonic() + seconds
        while True:
            try:
                found = self.title()
                arrived = self.script("return !window.before && document.readyState === 'complete'")
                if title in found and arrived:
                    return
            except RuntimeError as error:  # Between two pages there is none.
                found = str(error)
            assert time.monotonic() < until, f"{title!r} did not come within {seconds} s; there is {found!r}"
            time.sleep(0.1)

    def look(self, name, pictures):
        """Takes a picture of the whole page, and checks that it fits the window and that the console is empty."""
        wide = self.script("return [document.documentElement.scrollWidth, innerWidth]")
        assert wide[0] <= wide[1], f"{name} is {wide[0]} pixels wide in a window of {wide[1]}"
        size = self.cdp("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 6000), "scale": 1}
        picture = self.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        (pictures / f"{name}-{self.name}.png").write_bytes(base64.b64decode(picture["data"]))
        self.console(name)

    def console(self, name):
        log = self.call("POST", "/se/log", {"type": "browser"})
        assert not log, f"the console of {name} says: {log}"

    def end(self):
        self.call("DELETE", "")


def audit(browser, pictures):
    """Starts an audit from the first page and watches it end, by keyboard alone."""
    browser.follow("Audits", "Audits")
    browser.look("audits-empty", pictures)
    browser.follow("Start an audit", "Start an audit")
    browser.look("new", pictures)
    # A mistake first: what is wrong must stand beside its field, and what was typed must still be there.
    browser.tab_to("more")
    browser.keys("rounding (decimals = 99)")
    browser.follow("Start the audit", "Start an audit")
    wrong = browser.script("return [...document.querySelectorAll('.wrong')].map(e => e.innerText)")
    assert len(wrong) == 1 and "decimals" in wrong[0], wrong
    log = browser.call("POST", "/se/log", {"type": "browser"})
    # Chromium itself tells of every answer that is no success.
    assert all("422" in line["message"] for line in log), log
    browser.look("new-wrong", pictures)
    browser.tab_to("more")
    browser.script("document.activeElement.select()")
    browser.keys("temperature (temperature = 2.0)")
    # All attacks would take long here: the slowest is taken out.
    browser.tab_to("gradient_inversion")
    browser.keys(SPACE)
    browser.follow("Start the audit", "udit")
    seen = set()
    until = time.monotonic() + 400
    while "The audit is done" not in (title := browser.title()):
        assert "failed" not in title and "Start an audit" not in title, browser.script("return document.body.innerText")
        if title.startswith("An audit runs") and "running" not in seen:
            seen.add("running")
            browser.look("running", pictures)
        assert time.monotonic() < until, f"the audit did not end; there is {title!r}"
        time.sleep(0.3)
    browser.look("done", pictures)
    # The way on has the focus.
    browser.enter("Cloison audit of model")
    browser.look("audit", pictures)
    browser.follow("Open the report", "Cloison audit of model")
    assert browser.script("return location.pathname").endswith("/report.html")
    assert browser.script("return document.querySelector('h2').innerText") == "Verdict"
    browser.look("report", pictures)
    return seen


def stop(browser, pictures):
    """Starts an audit and stops it."""
    browser.follow("Audits", "Audits")
    browser.follow("Start an audit", "Start an audit")
    browser.follow("Start the audit", "An audit runs")
    # The link to stop has the focus of the page that loads itself again.
    assert browser.script(FOCUSED)["text"] == "Stop this audit", browser.script(FOCUSED)
    browser.enter("Stop this audit?")
    browser.look("stop", pictures)
    browser.follow("Stop it", "The audit was stopped", 60)
    browser.look("stopped", pictures)


def pages(browser, base, record, pictures):
    """Every page once, by the links of the navigation."""
    browser.look("service", pictures)
    browser.follow("Model", "Model")
    if "Not asked yet" in browser.script("return document.body.innerText"):
        browser.follow("Ask the passive parties", "Model", 60)
        assert "Not asked yet" not in browser.script("return document.body.innerText")
    browser.look("model", pictures)
    browser.follow("Ledger", "Ledger")
    browser.tab_to("id")
    browser.keys(record)
    browser.enter("Ledger")
    text = browser.script("return document.body.innerText").lower()
    assert "rows granted" in text and record in text, text
    address = browser.script("return location.href")
    assert record not in address, f"the record is in the address: {address}"
    browser.look("ledger", pictures)
    browser.follow("Audits", "Audits")
    browser.look("audits", pictures)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--driver", required=True, help="URL of the chromedriver")
    parser.add_argument("--url", required=True, help="what the dashboard printed")
    parser.add_argument("--record", required=True, help="a record id that is in the ledger")
    parser.add_argument("--pictures", required=True, type=pathlib.Path, help="where pictures go")
    options = parser.parse_args()
    base = options.url.split("/?")[0]
    looks = [(1280, 900, False), (1280, 900, True), (390, 844, False), (390, 844, True)]
    for at, look in enumerate(looks):
        browser = Browser(options.driver, *look)
        try:
            browser.go(options.url)
            browser.wait("Service")
            assert "token" not in browser.script("return location.href"), "the token stays in the address bar"
            if at == 0:
                audit(browser, options.pictures)
                browser.go(base + "/")
                browser.wait("Service")
                stop(browser, options.pictures)
                browser.go(base + "/")
                browser.wait("Service")
            pages(browser, base, options.record, options.pictures)
            if at > 0:
                browser.follow("Start an audit", "Start an audit")
                browser.look("new", options.pictures)
                browser.follow("Audits", "Audits")
                # The newest audit was stopped; the one before has the report.
                names = browser.script("return [...document.querySelectorAll('h2.entry a')].map(a => a.innerText)")
                browser.follow(names[-1], "Cloison audit of model")
                browser.look("audit", options.pictures)
                browser.follow("Open the report", "Cloison audit of model")
                browser.look("report", options.pictures)
            if at == 1:
                browser.go(f"{base}/compare?first={names[-1]}&second={names[-1]}")
                browser.wait("Two audits")
                browser.look("compare", options.pictures)
            print(f"{browser.name}: every page by keyboard, an empty console, no page too wide", flush=True)
        finally:
            browser.end()


if __name__ == "__main__":
    main()
