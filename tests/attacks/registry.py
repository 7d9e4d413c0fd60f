"""The list of attacks: a function that takes a Target and attacks it, with what the runner has to know of it.

    @attack(seconds=30, quick=5, probes=('session',))
    def sessions(target):
        '''The first line of this is the attack's line in the table.'''

A function attacks until `target.over()` or until it has nothing more to do. It runs in a process of its own, from an
address of its own (Target.source), and says what it did by its return value. `target.broke(...)` reports what must not
have been possible; what the server is measured by (crash, share served, memory, turns) the runner sees for itself.
"""

import dataclasses
import json
import sys
import time
import typing

ATTACKER = '127.6.6.6'  # another address than the healthy client's, so that shares by address tell them apart
_attacks = {}


@dataclasses.dataclass(frozen=True)
class Attack:
    name: str
    run: typing.Callable
    seconds: float          # how long the full form lasts
    quick: float            # and the quick form
    probes: tuple = ()      # what the healthy client does beside its usual work (healthy.py, PROBES)
    # flags of `weir serve`, only where the default configuration does not have what is attacked; or a function that
    # prepares what they name and returns them, called before the server starts
    flags: tuple | typing.Callable = ()
    repository: typing.Callable | None = None  # makes the folder of models, called before the server starts; None: the demo models
    quick_env: tuple = ()   # environment of the quick form's server: smaller budgets, so that it needs less of the machine
    program: typing.Callable | None = None  # makes a program that becomes the binary it is given: under a limit, say
    lacks: typing.Callable = str  # why this machine cannot run it; '': it can
    ends_server: bool = False  # the attack sends SIGTERM: nobody is served behind it, and the exit code has to be 0

    @property
    def line(self):
        return self.run.__doc__.strip().splitlines()[0]


def attack(seconds=20, quick=5, **more):
    def add(function):
        name = function.__name__
        assert name not in _attacks, name
        _attacks[name] = Attack(name, function, seconds, quick, **more)
        return function
    return add


def attacks():
    """All of them, in the order of the page: {name: Attack}."""
    import closing, memory, crowds, work, long_json, evergreen, text, journal, browsers, h2_floods, h1_floods, baidu_std, payloads, decoupled, embeddings, scores, grammars, generate, llama_cpp, adapters, responses, response_sockets, together, tls, strangers, origins, gateways, cluster, cluster_storage, own_code, guessing, shortage, clocks  # noqa: E401, F401
    return dict(_attacks)


class Target:
    """The server under attack, as its attacker sees it."""

    def __init__(self, port, pid, seconds, quick):
        self.port, self.pid, self.quick = port, pid, quick
        self.source = ATTACKER
        self.end = time.monotonic() + seconds
        self.found = []

    def flag(self, name):
        """The value of one of the server's flags."""
        with open(f'/proc/{self.pid}/cmdline') as line:
            words = line.read().split('\0')
        return words[words.index(name) + 1]

    def over(self):
        return time.monotonic() >= self.end

    def size(self, full, quick):
        return quick if self.quick else full

    def broke(self, what):
        self.found.append(what)


def strike(name, port, pid, seconds, quick):
    """Runs one attack in this process, once its input has a line; the last line of output is what it did, as JSON."""
    attack = attacks()[name]
    sys.stdin.readline()
    target = Target(port, pid, seconds, quick)
    did = attack.run(target)
    json.dump({'did': str(did or ''), 'broke': target.found[:5]}, sys.stdout)
    print(flush=True)
