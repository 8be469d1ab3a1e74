"""A headless Chromium, driven by the DevTools protocol over aiohttp, which vscaf needs anyway."""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
from vscaf.lab.polling import HANG_S, soon
from vscaf.lab.processes import start_time, tree

NAMES = ("chromium", "chromium-browser", "google-chrome")
MESSAGE_LIMIT_BYTES = 64 * 1024 * 1024  # a screenshot is one message


def chromium() -> str | None:
    """The path of an installed Chromium or Chrome."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Page:
    """A tab. `log`: what the page wrote to its console, and its errors. `hang_s`: how long it waits for something."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse, browser_pid: int, hang_s: float = HANG_S) -> None:
        self.browser_pid = browser_pid
        self._socket = socket
        self._hang_s = hang_s
        self._frame = ""
        self._contexts: dict[int, str] = {}
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._session: str | None = None
        self.log: list[str] = []

    async def read(self) -> None:
        """Reads all messages, until the socket is closed."""
        async for message in self._socket:
            told = json.loads(message.data)
            if "id" in told:
                self._waiting.pop(told["id"]).set_result(told)
            elif told["method"] == "Runtime.executionContextCreated":
                context = told["params"]["context"]
                if context["auxData"]["isDefault"]:
                    self._contexts[context["id"]] = context["auxData"]["frameId"]
            elif told["method"] == "Runtime.executionContextDestroyed":
                self._contexts.pop(told["params"]["executionContextId"], None)
            elif told["method"] == "Runtime.executionContextsCleared":
                self._contexts.clear()
            elif told["method"] in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"):
                self.log.append(json.dumps(told["params"])[:1000])

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method of the protocol and returns its result."""
        number = next(self._numbers)
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        session = {"sessionId": self._session} if self._session else {}
        await self._socket.send_json({"id": number, "method": method, "params": parameters, **session})
        told = await answer
        assert "error" not in told, f"{method}: {told['error']}"
        result: dict[str, Any] = told["result"]
        return result

    async def attach(self) -> None:
        """Makes the tab."""
        target = await self.call("Target.createTarget", url="about:blank")
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            await self.call(f"{domain}.enable")

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression in the page."""
        where = {"contextId": await self._context()} if self._frame else {}
        told = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True, **where
        )
        assert "exceptionDetails" not in told, f"{expression}: {told['exceptionDetails']}"
        return told["result"].get("value")

    def enter(self, path: str) -> None:
        """From now on expressions and selectors are about the frame whose address contains *path*. "": the page."""
        self._frame = path

    async def _context(self) -> int:
        """Where the frame's expressions are evaluated, once it is loaded."""
        found: list[int] = []

        async def check() -> bool:
            tree = (await self.call("Page.getFrameTree"))["frameTree"]
            frames = [one["frame"]["id"] for one in _frames(tree) if self._frame in one["frame"]["url"]]
            found[:] = [context for context, frame in self._contexts.items() if frame in frames]
            return bool(found)

        await until(check, lambda: f"a frame of {self._frame}: {self.log}", self._hang_s)
        return found[-1]

    async def until(self, expression: str) -> None:
        """Waits until a JavaScript expression is true."""
        shown = ""

        async def check() -> bool:
            nonlocal shown
            try:
                shown = await self.value("document.body ? document.body.innerText : ''")
                return bool(await self.value(expression))
            except AssertionError as error:  # it is loading: an element is not there yet, or the frame is a new one
                shown = str(error)
                return False

        await until(check, lambda: f"{expression} in\n{shown}\n{self.log}", self._hang_s)

    async def until_text(self, text: str, selector: str = "body") -> None:
        """Waits until an element's visible text contains *text*."""
        await self.until(f"document.querySelector({json.dumps(selector)})?.innerText.includes({json.dumps(text)})")

    async def open(self, address: str) -> None:
        await self.call("Page.navigate", url=address)

    async def click(self, selector: str, text: str = "") -> None:
        """Clicks the first element that matches *selector* and contains *text*, once one is visible and enabled."""
        found = (
            f"[...document.querySelectorAll({json.dumps(selector)})].find("
            f"one => one.textContent.includes({json.dumps(text)}) && !one.disabled && one.checkVisibility())"
        )
        await self.until(f"Boolean({found})")
        await self.value(f"{found}.click()")

    async def type(self, selector: str, text: str) -> None:
        """Types into the first field that matches *selector*, once it is there, visible and enabled. Cockpit shows its
        login when the script is ready for it."""
        field = f"document.querySelector({json.dumps(selector)})"
        await self.until(f"{field} && !{field}.disabled && {field}.checkVisibility()")
        await self.value(f"{field}.focus()")
        await self.call("Input.insertText", text=text)

    async def press_enter(self) -> None:
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text="\r", **key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **key)

    async def look(self, width: int, dark: bool) -> None:
        """The size of the window, and whether the user prefers dark colours."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )
        scheme = "dark" if dark else "light"
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    async def screenshot(self, whole: bool = True) -> bytes:
        """The page as a PNG file, or only what is in the window."""
        taken = await self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        return base64.b64decode(taken["data"])


def _frames(tree: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A frame and all frames in it."""
    yield tree
    for child in tree.get("childFrames", ()):
        yield from _frames(child)


async def until(check: Any, what: Any, hang_s: float = HANG_S, poll_s: float = 0.1) -> None:
    """As vscaf.lab.polling.soon, for a condition that is a coroutine."""
    done = False

    async def poll() -> None:
        nonlocal done
        while not await check():  # noqa: ASYNC110  (the browser is asked)
            await asyncio.sleep(poll_s)
        done = True

    task = asyncio.create_task(poll())
    try:
        await soon(lambda: done or task.done(), what, hang_s)
        await task
    finally:
        task.cancel()


@asynccontextmanager
async def page(program: str, hang_s: float = HANG_S) -> AsyncIterator[Page]:
    """A tab in a Chromium of its own."""
    with tempfile.TemporaryDirectory() as directory:
        port_file = Path(directory) / "DevToolsActivePort"
        process = await asyncio.create_subprocess_exec(
            program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run",
            "--disable-extensions", "--disable-dev-shm-usage", "--remote-debugging-port=0",
            f"--user-data-dir={directory}", "about:blank", env=os.environ | {"TMPDIR": directory},
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            await soon(lambda: port_file.exists() and port_file.read_text().count("\n") > 0, "Chromium listens")
            port, path = port_file.read_text().split()
            async with (
                aiohttp.ClientSession() as session,
                session.ws_connect(f"ws://127.0.0.1:{port}{path}", max_msg_size=MESSAGE_LIMIT_BYTES) as socket,
            ):
                tab = Page(socket, process.pid, hang_s)
                reader = asyncio.create_task(tab.read())
                await tab.attach()
                yield tab
                reader.cancel()
        finally:
            processes = tree(process.pid)
            process.terminate()
            await process.wait()
            # Its children still write to the directory for a moment.
            await soon(lambda: not any(map(start_time, processes)), "all processes of Chromium have ended")
