"""Types in bash and zsh, as a user with a Tab key does, and compares the words that norma would receive.

    python3 scripts/check/check_completions.py PREFIX/share    # after make install PREFIX=...

Needs both shells. Prints the number of lines, or the first one that differs.
"""

import itertools
import os
import pty
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FILES = ["model.gguf", "weights.bin", "notes.txt", "my story.gguf", "folder/config.json"]
CASES = {  # what is typed, with a Tab at the end: the words of the command
    "norma mo": ["model.gguf"],
    "norma we": ["weights.bin"],
    "norma my": ["my story.gguf"],
    "norma fol": ["folder"],
    "norma model.gguf -m per": ["model.gguf", "-m", "perplexity"],
    "norma --mode ch": ["--mode", "chat"],
    "norma model.gguf -m convert -q bf": ["model.gguf", "-m", "convert", "-q", "bf16"],
    "norma --kv=f1": ["--kv=f16"],
    "norma --think of": ["--think", "off"],
    "norma --template zep": ["--template", "zephyr"],
    "norma --template not": ["--template", "notes.txt"],
    "norma --templ": ["--template"],
    "norma --norm-s": ["--norm-sweep"],
    "norma -f no": ["-f", "notes.txt"],
    "norma -z we": ["-z", "weights.bin"],
    "norma mo\t-m inf": ["model.gguf", "-m", "info"],
}
SHELLS = {  # the shell, and lines that load the completions
    "bash": (["bash", "--norc", "--noprofile", "-i"], "source {share}/bash-completion/completions/norma"),
    "zsh": (["zsh", "-f", "-i"], "fpath=({share}/zsh/site-functions $fpath); autoload -Uz compinit; compinit -u -D"),
}


def type_in(shell, share, folder):
    """The words of each command once the shell has completed what is typed."""
    command, load = SHELLS[shell]
    result = folder.parent / shell
    master, slave = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "HOME": str(folder.parent), "PS1": "$ "}
    process = subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=slave, cwd=folder, env=environment, start_new_session=True
    )
    os.close(slave)
    os.set_blocking(master, False)
    deadline = time.monotonic() + 60
    keys = [load.format(share=share) + "\n", f"norma() {{ printf '%s\\n' \"$@\" . >> {result}; }}\n"]
    for typed in CASES:
        keys += [typed + "\t", "\n"]
    for text in [*keys, "exit\n"]:
        os.write(master, text.encode())
        quiet_since = time.monotonic()
        while time.monotonic() - quiet_since < 0.15 and time.monotonic() < deadline:
            try:
                if os.read(master, 4096):
                    quiet_since = time.monotonic()
            except (BlockingIOError, OSError):
                time.sleep(0.02)
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    process.kill()
    process.wait()
    os.close(master)
    text = result.read_text() if result.exists() else ""
    # zsh removes the "/" of a folder
    return [[word.rstrip("/") for word in words.splitlines()] for words in text.split(".\n")[:-1]]


def main():
    share = Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "here"
        for name in FILES:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).touch()
        for shell in SHELLS:
            all_found = type_in(shell, share, folder)
            for (typed, expected), found in itertools.zip_longest(CASES.items(), all_found, fillvalue=[]):
                if found != expected:
                    sys.exit(f"{shell}: {typed!r} and Tab become {found}, expected {expected}")
    print(f"{len(CASES)} lines in {' and '.join(SHELLS)}")


if __name__ == "__main__":
    main()
