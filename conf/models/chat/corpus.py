"""Text and conversations to train on, made from what every Debian machine carries. See README.md for the licences.

A document is what came from one source: all packages of one Debian source package, one docstring, one kind of drill. It
is a list of spans (text, label) per conversation; labels say what the concept probes are trained on. Every 40th source,
by a hash of its name, is held out.
"""
import collections
import gzip
import hashlib
import importlib
import inspect
import lzma
import glob
import os
import re
import subprocess
import warnings

SECTIONS = set("""
    admin database debug devel doc editors education electronics fonts games gnome golang graphics haskell httpd
    java javascript kde libdevel libs localization mail math misc net news ocaml perl php python rust ruby
    science shells sound text utils vcs video web x11 xfce""".split())
SECTION_WORDS = {"admin": "system administration", "libdevel": "library development", "libs": "libraries",
                 "net": "networking", "devel": "software development", "doc": "documentation", "utils": "utilities",
                 "vcs": "version control", "otherosfs": "other operating systems", "x11": "the X Window System",
                 "web": "the web", "misc": "miscellaneous", "python": "Python", "perl": "Perl", "ruby": "Ruby",
                 "java": "Java", "javascript": "JavaScript", "haskell": "Haskell", "rust": "Rust", "golang": "Go",
                 "php": "PHP", "ocaml": "OCaml", "kde": "KDE", "gnome": "GNOME", "xfce": "Xfce"}
MODULES = """argparse array ast asyncio base64 bdb binascii bisect builtins bz2 calendar cmath cmd code codecs
    collections collections.abc colorsys compileall concurrent.futures configparser contextlib copy
    copyreg csv ctypes curses datetime dbm decimal difflib dis doctest email email.message email.utils
    enum errno fcntl filecmp fileinput fnmatch fractions ftplib functools gc getopt getpass gettext glob
    graphlib gzip hashlib heapq hmac html html.parser http http.client http.cookies http.server imaplib
    importlib importlib.util inspect io ipaddress itertools json keyword linecache locale logging
    logging.handlers lzma mailbox marshal math mimetypes mmap multiprocessing netrc numbers operator os
    os.path pathlib pdb pickle pickletools pkgutil platform plistlib poplib posixpath pprint profile
    pstats pty pyclbr queue quopri random re readline reprlib resource sched secrets select selectors
    shelve shlex shutil signal site smtplib socket socketserver sqlite3 ssl stat statistics string struct
    subprocess symtable sys sysconfig syslog tarfile tempfile termios textwrap threading time timeit
    token tokenize trace traceback tracemalloc tty turtle types typing unicodedata unittest unittest.mock
    urllib.error urllib.parse urllib.request uuid venv warnings wave weakref webbrowser xml.dom
    xml.etree.ElementTree xml.sax xmlrpc.client zipapp zipfile zipimport zlib""".split()
ONES = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
       "seventeen eighteen nineteen".split()
TENS = "zero ten twenty thirty forty fifty sixty seventy eighty ninety".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
GREETINGS = ["Hello", "Hello!", "Hi", "Hi!", "Hi there!", "Hey", "Good morning", "Good morning!", "Good evening",
             "hello", "hi", "Hello, how are you?", "How are you?", "Good day!"]
SELF = {
    "Who are you?": "I am chat, the demo model of weir: a very small language model that has read Debian's "
                    "package descriptions.",
    "What are you?": "I am a very small language model. I have read Debian's package descriptions and little else.",
    "What can you do?": "I can describe Debian packages and Python functions, do small sums, count, and read "
                        "handwritten digits. I am often wrong.",
    "Are you always right?": "No. I am a toy with a few million parameters, and I make things up.",
    "Can you help me?": "I can try. Ask me what a Debian package is, or show me a handwritten digit.",
    "Thank you": "You are welcome.", "Thanks!": "You are welcome.", "Thank you!": "You are welcome.",
    "Goodbye": "Goodbye!", "Bye": "Goodbye!", "Tell me a joke.": "I do not know any jokes. I have read only package "
                                                                 "descriptions.",
}
SYSTEM = ["You are a helpful assistant.", "You are chat, a small demo model.", "Answer briefly."]


def opened(path):
    """Text of a list of apt, however it is packed."""
    if path.endswith(".lz4"):
        return subprocess.run(["lz4", "-dc", path], check=True, stdout=subprocess.PIPE).stdout.decode()
    opener = gzip.open if path.endswith(".gz") else lzma.open if path.endswith(".xz") else open
    with opener(path, "rt", encoding="utf-8") as f:
        return f.read()


def paragraphs(text):
    """The stanzas of a Debian control file as dicts."""
    for stanza in text.split("\n\n"):
        fields, key = {}, None
        for line in stanza.split("\n"):
            if line[:1] in (" ", "\t"):
                fields[key] += "\n" + line[1:]
            elif ":" in line:
                key, _, value = line.partition(":")
                fields[key] = value.strip()
        if fields:
            yield fields


def prose(text):
    """The paragraphs of an extended description, joined lines; what is set off with spaces is left out."""
    out = []
    for block in re.split(r"\n\.\n", text):
        if not re.search(r"^[ *-]", block, re.M):
            out.append(" ".join(block.split()))
    return out


def packages(lists):
    """(source, package, section, synopsis, paragraphs) of Debian main, sorted; twins of a description once."""
    found, seen = {}, set()
    for path in sorted(glob.glob(os.path.join(lists, "*_debian_dists_*_main_binary-*_Packages*"))):
        for p in paragraphs(opened(path)):
            source = p.get("Source", p["Package"]).split()[0]
            found.setdefault(p["Package"], (source, p.get("Section", ""), p.get("Description-md5")))
    out = []
    for path in sorted(glob.glob(os.path.join(lists, "*_debian_dists_*_main_i18n_Translation-en*"))):
        for p in paragraphs(opened(path)):
            source, section, digest = found.get(p["Package"], (None, None, None))
            if source is None or digest != p["Description-md5"] or section not in SECTIONS:
                continue
            synopsis, _, rest = p["Description-en"].partition("\n")
            blocks = prose(rest)
            if not blocks or blocks[0] in seen or not p["Description-en"].isascii() or "ransitional" in synopsis:
                continue
            seen.add(blocks[0])
            out.append((source, p["Package"], section, synopsis.strip().rstrip("."), blocks))
    return sorted(out)


def docstrings():
    """(name, first paragraph) of what Python's standard library documents."""
    out = {}
    for module in MODULES:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                members = inspect.getmembers(importlib.import_module(module))
        except Exception:  # a module that this Python was built without
            continue
        for name, member in members:
            if name.startswith("_") or not (inspect.isroutine(member) or inspect.isclass(member)):
                continue
            text = " ".join((inspect.getdoc(member) or "").split("\n\n")[0].split())
            home = module if module != "builtins" else ""
            if 30 < len(text) < 400 and text.isascii() and text not in out:
                out[text] = f"{home}.{name}".lstrip(".")
    return sorted((name, text) for text, name in out.items())


def held(name):
    return hashlib.sha256(name.encode()).digest()[0] % 40 == 0


def said(role, *spans):
    return [(f"<|im_start|>{role}\n", "")] + list(spans) + [("<|im_end|>\n", "")]


def turns(*pairs):
    """A conversation: (question, answer) spans each, given as strings or lists of spans."""
    out = []
    for question, answer in pairs:
        out += said("user", *([(question, "")] if isinstance(question, str) else question))
        out += said("assistant", *([(answer, "")] if isinstance(answer, str) else answer))
    return out


def with_system(conversation, random):
    return said("system", (SYSTEM[random.integers(len(SYSTEM))], "")) + conversation if random.random() < 0.1 \
        else conversation


def pick(random, options):
    return options[random.integers(len(options))]


def sentence(text):
    return text[:1].upper() + text[1:] + ("" if text[-1:] in ".!?" else ".")


def shortened(text, most):
    """Whole sentences up to about this many characters."""
    out = ""
    for part in re.split(r"(?<=[.!?:]) (?=[A-Z])", text):
        if out and len(out) + len(part) > most:
            break
        out = f"{out} {part}".strip()
    return out


def about_package(random, package, section, synopsis, blocks):
    """One conversation about a package. The label of a name is 'name', of all else the section."""
    name, where = (package, "name"), SECTION_WORDS.get(section, section)
    short = sentence(synopsis) + " " + shortened(blocks[0], 320)
    ask = lambda *forms: [(pick(random, forms), ""), name]  # noqa: E731
    first = [
        (lambda: (ask("What is ") + [("?", "")], [(short, section)])),
        (lambda: (ask("Tell me about ", "Describe ", "Explain ") + [(".", "")],
                  [(" ".join([sentence(synopsis)] + blocks)[:900].rsplit(". ", 1)[0].rstrip(".") + ".", section)])),
        (lambda: (ask("What is the package ", "What does the package ") + [("?", "")], [(short, section)])),
        (lambda: (ask("In one line: what is ") + [("?", "")], [(sentence(synopsis), section)])),
        (lambda: ([(f"Which package is this: {synopsis}?", "")], [("That is ", section), name, (".", "")])),
    ]
    chosen = first[random.choice(len(first), p=[0.5, 0.2, 0.1, 0.1, 0.1])]()
    talk = [chosen]
    if random.random() < 0.15:
        more = [(pick(random, ["Which section is it in?", "And its section?"]), [(f"It is in {where}.", section)]),
                (pick(random, ["And in one line?", "Shorter, please."]), [(sentence(synopsis), section)]),
                (pick(random, ["Thanks!", "Thank you."]), "You are welcome.")]
        talk.append(pick(random, more))
    return with_system(turns(*talk), random)


def in_words(n):
    if n < 20:
        return ONES[n]
    return TENS[n // 10] + ("-" + ONES[n % 10] if n % 10 else "")


def drill(random):
    """One exercise in numbers, days or months; ("text", label) with label 'number' where numbers are spoken of."""
    a, b, kind = int(random.integers(0, 21)), int(random.integers(0, 21)), int(random.integers(9))
    if kind == 0:
        form = pick(random, [f"What is {a} plus {b}?", f"What is {a} + {b}?", f"{a} + {b} = ?"])
        return form, f"{a} plus {b} is {a + b}.", "number"
    if kind == 1:
        a, b = max(a, b), min(a, b)
        return pick(random, [f"What is {a} minus {b}?", f"What is {a} - {b}?"]), f"{a} minus {b} is {a - b}.", "number"
    if kind == 2:
        a, b = a % 11, b % 11
        return pick(random, [f"What is {a} times {b}?", f"What is {a} * {b}?"]), f"{a} times {b} is {a * b}.", "number"
    if kind == 3:
        b = a + 2 + b % 9
        return pick(random, [f"Count from {a} to {b}.", f"Please count from {a} to {b}."]), \
            ", ".join(map(str, range(a, b + 1))) + ".", "number"
    if kind == 4:
        n = int(random.integers(100))
        return pick(random, [f"Write {n} in words.", f"How do you say {n}?"]), sentence(in_words(n)), "number"
    if kind == 5:
        n = int(random.integers(99))
        return pick(random, [f"What comes after {n}?", f"Which number follows {n}?"]), \
            f"After {n} comes {n + 1}.", "number"
    if kind == 6:
        days = pick(random, [DAYS, MONTHS])
        i = int(random.integers(len(days) - 1))
        return f"What comes after {days[i]}?", f"After {days[i]} comes {days[i + 1]}.", ""
    if kind == 7:
        a, b = (a, b) if a != b else (a, a + 1)
        return f"Which is more, {a} or {b}?", f"{max(a, b)} is more than {min(a, b)}.", "number"
    n = int(random.integers(100))
    return f"Is {n} even or odd?", f"{n} is {'odd' if n % 2 else 'even'}.", "number"


def small_talk(random):
    if random.random() < 0.5:
        return pick(random, GREETINGS), pick(random, ["Hello! Ask me what a Debian package is.",
                                                      "Hello! How can I help you?"]), ""
    question = pick(random, list(SELF))
    return question, SELF[question], ""


def drills(random, count):
    out = []
    for _ in range(count):
        talk = [small_talk(random) if random.random() < 0.25 else drill(random) for _ in range(random.integers(1, 4))]
        out.append(with_system(turns(*[([(q, label)], [(a, label)]) for q, a, label in talk]), random))
    return out


def conversations(lists, random):
    """{"train": [...], "held": [...]}: documents, each a list of spans; and what was read, in words."""
    out, counts = {"train": [], "held": []}, collections.Counter()
    for source, package, section, synopsis, blocks in packages(lists):
        side = "held" if held(source) else "train"
        out[side].append(about_package(random, package, section, synopsis, blocks))
        counts["packages"] += 1
        if random.random() < 0.25:
            out[side].append([(package, "name"), (" - " + synopsis + "\n" + "\n".join(blocks) + "\n", section)])
    for name, text in docstrings():
        side = "held" if held("python " + name.split(".")[0] + name) else "train"
        question = pick(random, ["What does {} do?", "Explain {}.", "What is {}?"]).split("{}")
        out[side].append(turns(([(question[0], ""), (name, "python"), (question[1], "")], [(text, "python")])))
        counts["docstrings"] += 1
    out["train"] += drills(random, 12000)
    out["held"] += drills(random, 150)  # drawn afresh: some of them occur in training too, as sums do
    return out, dict(counts)
