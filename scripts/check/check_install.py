"""Tests `make install` and `make uninstall` with awkward paths: nothing outside is touched, and modes do not depend on
the umask.

    python3 scripts/check/check_install.py      # in the repository; needs a built ./run
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
INSTALLED = [
    "bin/norma", "share/norma/stories.gguf", "share/man/man1/norma.1",
    "share/bash-completion/completions/norma", "share/zsh/site-functions/_norma",
]  # fmt: skip
AWKWARD = ["plain", "ann smith", "it's", 'a "b"', "*", "a;b", "(x)", "a&b", "~", "-rf", "[ab]?", "ä ö"]


def make(target, prefix, destdir="", umask=0o022, **flags):
    settings = [f"PREFIX={prefix}", *([f"DESTDIR={destdir}"] if destdir else []), *(f"{k}={v}" for k, v in flags.items())]
    return subprocess.run(["make", "-s", target, *settings], cwd=TOP, umask=umask, capture_output=True, text=True)


def files(folder):
    return sorted(p.relative_to(folder).as_posix() for p in Path(folder).rglob("*") if not p.is_dir())


def check_path(name, destdir):
    """Installs to a folder of this name, with files next to it that every unquoted word of the path would name."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        others = [home / word for word in ("ann", "smith", "a", "b", "x", "other")]
        for other in others:
            (other / "bin").mkdir(parents=True)
            (other / "bin/norma").write_text("not ours")
            (other / "share/norma").mkdir(parents=True)
            (other / "share/norma/mine").write_text("not ours")
        root = home / name / "deep"
        place = {"prefix": "/usr", "destdir": str(root)} if destdir else {"prefix": str(root)}
        to = root / "usr" if destdir else root
        for step in range(2):  # and once more over what is there
            result = make("install", umask=0o077, **place)
            assert result.returncode == 0, (name, result.stderr)
            assert set(INSTALLED) <= set(files(to)), (name, files(to))
        for path in to.rglob("*"):
            mode = stat.S_IMODE(path.stat().st_mode)
            expected = 0o755 if path.is_dir() or path.name == "norma" and path.parent.name == "bin" else 0o644
            assert mode == expected, (name, path, oct(mode))
        story = subprocess.run([to / "bin/norma", "-s", "1", "-n", "20"], capture_output=True, text=True, cwd="/")
        assert story.returncode == 0 and story.stdout, (name, story.stderr)
        (to / "share/norma/own.gguf").write_text("the user's")
        assert make("uninstall", **place).returncode != 0, "an unknown file must keep its folder"
        assert files(to) == ["share/norma/own.gguf"], (name, files(to))
        (to / "share/norma/own.gguf").unlink()
        result = make("uninstall", **place)
        assert result.returncode == 0 and not files(to) and not (to / "share/norma").exists(), (name, result.stderr)
        for other in others:
            assert files(other) == ["bin/norma", "share/norma/mine"], (name, other, files(other))


def check_newline():
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "a").mkdir()
        for target in "install", "uninstall":
            result = make(target, f"{folder}/a\n{folder}/b")
            assert result.returncode != 0 and "newline" in result.stderr, result
        assert not files(folder), files(folder)


def check_manual():
    """The manual page has every option of --help, every command of a chat, and the sections that a reader expects."""
    with tempfile.TemporaryDirectory() as folder:
        assert make("install", folder).returncode == 0
        page = (Path(folder) / "share/man/man1/norma.1").read_text()
        options = subprocess.run([Path(folder) / "bin/norma", "--help"], capture_output=True, text=True).stdout
        shown = subprocess.run(["man", "-l", Path(folder) / "share/man/man1/norma.1"], capture_output=True, text=True,
                               env={**os.environ, "MANWIDTH": "80"}) if shutil.which("man") else None  # fmt: skip
    tags = set(re.findall(r"^\.TP\n(.*)", page, re.MULTILINE))
    for option in re.findall(r"^  (?:-[a-z], |    )(--[a-z-]+)", options, re.MULTILINE):
        name = re.escape(option.replace("-", "\\-"))
        assert any(re.search(rf"{name}(?![\\]-|\w)", tag) for tag in tags), option
    for command in re.findall(r'^    \{"(/[a-z?!]+)"', (TOP / "modes/commands.c").read_text(), re.MULTILINE):
        assert f"\\fB{command}" in page, command
    for section in "EXAMPLES", "EXIT STATUS", "FILES", "ENVIRONMENT", "OPTIONS", "MODES", "CONVERSATIONS":
        assert f'.SH "{section}"' in page or f".SH {section}\n" in page, section
    assert "`" not in page and "](" not in page and "./run" not in page, "Markdown is left"
    wide = [line for line in shown.stdout.split("\n") if len(line) > 80] if shown else []
    assert not wide, wide


def check_flags():
    """CPPFLAGS and LDFLAGS reach the compiler and the linker."""
    command = ["make", "-n", "-B", "all", "VARIANT=flags", "CPPFLAGS=-DPACKAGER=1", "LDFLAGS=-Wl,-z,relro", "V=1"]
    shown = subprocess.run(command, cwd=TOP, capture_output=True, text=True).stdout.split("\n")
    compiled = [line for line in shown if " -c -o " in line and "-DPACKAGER=1" in line]
    linked = [line for line in shown if "-Wl,-z,relro" in line and "-lm" in line]
    assert compiled and linked, shown[-5:]


def main():
    for name in AWKWARD:
        check_path(name, destdir=False)
    for name in AWKWARD[1:4]:
        check_path(name, destdir=True)
    check_newline()
    check_manual()
    check_flags()
    print(f"{len(AWKWARD) + 3} places, a newline, flags")


if __name__ == "__main__":
    os.environ.pop("DESTDIR", None)
    sys.exit(main())
