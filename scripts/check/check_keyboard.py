"""Types messages into a chat in tmux and compares the screen with what was sent.

    python3 scripts/check/check_keyboard.py [RUN]

tmux is a terminal that this repository did not write. In windows of 20, 80 and 200 columns every key edits texts of
ASCII, wide and combining characters and emoji; the screen, read back, must be the message that /save writes. Also a
paste of 100 KB, windows that change their size, Ctrl-Z and fg in a shell, rlwrap, kills, undo, Ctrl-R and Tab.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
RUN = Path(sys.argv[1] if len(sys.argv) > 1 else TOP / "run").resolve()
STATE = tempfile.mkdtemp()  # the history of the messages sent here
CHAT = f"env XDG_STATE_HOME={STATE} {RUN} {TOP}/models/stories.gguf -m chat -n 1 -t 0"
SOCKET = f"keyboard-{os.getpid()}"
ROWS = 30
CHARACTERS = ["a", "b", "hello", " x", "é", "e\u0301", "你", "好", "😀", "한"]
KEYS = [
    "Left",
    "Right",
    "Home",
    "End",
    "Up",
    "Down",
    "BSpace",
    "DC",
    "M-b",
    "M-f",
    "M-d",
    "C-a",
    "C-e",
    "C-k",
    "C-y",
    "C-_",
    "C-l",
    "C-u",
    "C-w",
    "C-Left",
    "C-Right",
    "M-Enter",
    "C-j",
]


def tmux(*arguments):
    return subprocess.run(["tmux", "-L", SOCKET, *arguments], check=True, capture_output=True, text=True).stdout


class Terminal:
    def __init__(self, columns, command):
        size = ["-x", str(columns), "-y", str(ROWS)]
        tmux("new-session", "-d", "-s", "s", *size, command)
        self.settle()

    def lines(self):
        return tmux("capture-pane", "-p", "-J", "-S", "-", "-t", "s")

    def settle(self):
        """Waits until the screen is the same for a while."""
        last, since = None, time.monotonic()
        while time.monotonic() - since < 0.15:
            now = self.lines() + tmux("display-message", "-p", "-t", "s", "#{cursor_x},#{cursor_y}")
            if now != last:
                last, since = now, time.monotonic()
            time.sleep(0.02)

    def type(self, *keys):
        """Keys by tmux's names; other texts as they are."""
        for key in keys:
            tmux(
                "send-keys", "-t", "s", *(["--", key] if key in KEYS or key[:2] in ("C-", "En") or key == "Tab" else ["-l", "--", key])
            )

    def message(self):
        """The text after the last prompt."""
        self.settle()
        return self.lines().rpartition("User: ")[2].rstrip("\n ")

    def send(self):
        """Sends the message, and returns what the screen showed of it."""
        shown = self.message()
        self.type("Enter")
        for _ in range(100):  # until the next prompt
            self.settle()
            if not self.message():
                break
        return shown

    def save(self, file):
        """Saves the conversation, and returns the messages sent."""
        self.type(f"/save {file}", "Enter")
        self.settle()
        tmux("kill-session", "-t", "s")
        return [m["content"].rstrip("\n ") for m in json.loads(file.read_text()) if m["role"] == "user"]


def compare(what, shown, messages):
    if shown != messages:
        for a, b in zip(shown, messages):
            if a != b:
                sys.exit(f"{what}: on the screen {a!r}, sent {b!r}")
        sys.exit(f"{what}: {len(shown)} messages on the screen, {len(messages)} sent")


def edit(folder, columns):
    """Random keys, and each key once in a text of every kind of character."""
    draw = random.Random(columns)
    sequences = [[draw.choice(CHARACTERS) for _ in range(6)] + [key, "X"] for key in KEYS]
    sequences += [[draw.choice(KEYS + 2 * CHARACTERS) for _ in range(25)] for _ in range(8)]
    terminal, shown = Terminal(columns, CHAT), []
    for keys in sequences:
        terminal.type("z", *keys, "z")
        shown.append(terminal.send())
    compare(f"{columns} columns", shown, terminal.save(folder / f"{columns}.json"))
    return len(shown)


def resize(folder):
    """The window changes its size while a text is edited."""
    terminal, shown = Terminal(80, CHAT), []
    for columns in (30, 200, 21, 80):
        terminal.type("some words that wrap ", "你好 ", "and others, in a narrow window at least", "C-Left")
        terminal.settle()
        tmux("resize-window", "-t", "s", "-x", str(columns))
        terminal.settle()
        terminal.type("X")
        shown.append(terminal.send())
    compare("resized", shown, terminal.save(folder / "resized.json"))
    return len(shown)


def suspend(folder):
    """Ctrl-Z and fg, in a shell."""
    terminal = Terminal(80, "bash --norc --noprofile -i")
    terminal.type(f"PS1='$ '; stty -a > {folder}/before; {CHAT}", "Enter")
    terminal.settle()
    terminal.type("hello", "Left", "C-z")
    terminal.settle()
    terminal.type(f"stty -a > {folder}/stopped; fg", "Enter")
    terminal.settle()
    terminal.type("XX")
    shown = [terminal.send()]
    messages = terminal.save(folder / "suspended.json")
    compare("Ctrl-Z", shown, messages)
    if (folder / "before").read_text() != (folder / "stopped").read_text():
        sys.exit("Ctrl-Z: the terminal was not set back")
    return len(shown)


def remember(folder):
    """Kills, undo, completion, and messages of the session before."""
    terminal = Terminal(80, CHAT)
    terminal.type("one two", "C-w", "C-a", "C-y", "x", "C-_", "Enter")  # "twoone "
    terminal.settle()
    terminal.type("/sa", "Tab", f" {folder}/first.json", "Enter", "/bye", "Enter")
    time.sleep(0.5)
    first = [m["content"] for m in json.loads((folder / "first.json").read_text()) if m["role"] == "user"]
    compare("killed and brought back", ["twoone"], [m.rstrip() for m in first])
    terminal = Terminal(80, CHAT)
    terminal.type("C-r", "woo", "C-e", "!")
    shown = [terminal.send()]
    compare("found again", shown, terminal.save(folder / "second.json"))
    compare("found again", shown, ["twoone !"])
    return 2


def narrow(_):
    """In 20 columns nothing is cut: help and notes wrap at words."""
    terminal = Terminal(20, CHAT)
    terminal.type("/help", "Enter")
    for _ in range(50):
        text = tmux("capture-pane", "-p", "-S", "-", "-t", "s")
        if "undoes." in text:
            break
        time.sleep(0.1)
    tmux("kill-session", "-t", "s")
    help_text = text.partition("/help")[2]
    if "conversation" not in help_text.split() or max(map(len, text.split("\n"))) > 20:
        sys.exit(f"20 columns: {text}")
    return 0


def wrap(folder):
    """rlwrap, which edits lines by itself, leaves this to the program."""
    terminal = Terminal(80, f"rlwrap {CHAT}")
    terminal.type("hello", "Left", "Left", "XX")
    shown = [terminal.send()]
    compare("rlwrap", shown, terminal.save(folder / "wrapped.json"))
    return len(shown)


def main():
    for program in ("tmux", "rlwrap"):
        if not shutil.which(program):
            sys.exit(f"{program} is missing")
    tmux("-f", "/dev/null", "new-session", "-d")  # keeps the server between the others
    try:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            n = sum(edit(folder, columns) for columns in (20, 80, 200))
            n += resize(folder) + suspend(folder) + wrap(folder) + remember(folder) + narrow(folder)
    finally:
        subprocess.run(["tmux", "-L", SOCKET, "kill-server"], check=False, capture_output=True)
        shutil.rmtree(STATE)
    print(f"{n} messages: the screen showed what was sent")


if __name__ == "__main__":
    main()
