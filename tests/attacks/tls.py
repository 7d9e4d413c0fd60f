"""TLS itself: what a peer may do in a handshake, and between records. libssl is called by hand for what Python's ssl does not offer."""

import ctypes
import functools
import hashlib
import hmac
import re
import subprocess
import threading
import time

import harness
from peer import JSON, Raw, ask, more_descriptors, post
from registry import attack
from strangers import INFER

NO_MEMORY = b'\x15\x03\x03\0\x02\x02\x50'  # the alert internal_error, before anything is encrypted
OTHER = '127.7.7.7'
TLS12, TLS13 = 0x303, 0x304
CONTROL_GROUPS, CONTROL_MIN_VERSION, CONTROL_MAX_VERSION = 92, 123, 124  # of SSL_ctrl()
UPDATE_REQUESTED = 1
ALERT, HANDSHAKE, APPLICATION_DATA = 21, 22, 23
HANDSHAKE_BYTES = 80 << 10  # TlsSession::kHandshakeBytes
HANDSHAKE_S = 13  # ConnInput::kHandshakeTime, what a sweep is late, and lingering


@functools.cache
def libssl():
    ssl, crypto = ctypes.CDLL('libssl.so.3'), ctypes.CDLL('libcrypto.so.3')
    pointer, size = ctypes.c_void_p, ctypes.c_size_t
    for library, name, result, *arguments in (
            (ssl, 'TLS_client_method', pointer), (ssl, 'SSL_CTX_new', pointer, pointer), (ssl, 'SSL_new', pointer, pointer),
            (ssl, 'SSL_free', None, pointer), (ssl, 'SSL_set_bio', None, pointer, pointer, pointer),
            (ssl, 'SSL_ctrl', ctypes.c_long, pointer, ctypes.c_int, ctypes.c_long, pointer), (ssl, 'SSL_set_connect_state', None, pointer),
            (ssl, 'SSL_do_handshake', ctypes.c_int, pointer), (ssl, 'SSL_is_init_finished', ctypes.c_int, pointer),
            (ssl, 'SSL_key_update', ctypes.c_int, pointer, ctypes.c_int), (ssl, 'SSL_write', ctypes.c_int, pointer, pointer, ctypes.c_int),
            (ssl, 'SSL_read', ctypes.c_int, pointer, pointer, ctypes.c_int), (ssl, 'SSL_set_cipher_list', ctypes.c_int, pointer, pointer),
            (ssl, 'SSL_get_session', pointer, pointer), (ssl, 'SSL_SESSION_get_master_key', size, pointer, pointer, size),
            (ssl, 'SSL_get_client_random', size, pointer, pointer, size), (ssl, 'SSL_get_server_random', size, pointer, pointer, size),
            (crypto, 'BIO_s_mem', pointer), (crypto, 'BIO_new', pointer, pointer), (crypto, 'ERR_clear_error', None),
            (crypto, 'BIO_write', ctypes.c_int, pointer, pointer, ctypes.c_int),
            (crypto, 'BIO_read', ctypes.c_int, pointer, pointer, ctypes.c_int)):
        getattr(library, name).restype, getattr(library, name).argtypes = result, arguments
        setattr(ssl, name, getattr(library, name))
    ssl.context = ssl.SSL_CTX_new(ssl.TLS_client_method())
    return ssl


class Tls(Raw):
    """A client's side over memory: what it would send is in output() until it is sent."""

    def __init__(self, target, version=TLS13, **more):
        super().__init__(target, **more)
        self.lib = libssl()
        self.ssl = self.lib.SSL_new(self.lib.context)
        for control in (CONTROL_MIN_VERSION, CONTROL_MAX_VERSION):
            self.lib.SSL_ctrl(self.ssl, control, version, None)
        if version == TLS12:
            self.lib.SSL_set_cipher_list(self.ssl, b'ECDHE-ECDSA-AES128-GCM-SHA256')
        self.input, self.out = (self.lib.BIO_new(self.lib.BIO_s_mem()) for _ in range(2))
        self.lib.SSL_set_bio(self.ssl, self.input, self.out)
        self.lib.SSL_set_connect_state(self.ssl)

    def __del__(self):
        if getattr(self, 'ssl', None):
            self.lib.SSL_free(self.ssl)
            self.ssl = None

    def offer_groups(self, names):
        if self.lib.SSL_ctrl(self.ssl, CONTROL_GROUPS, 0, names) != 1:
            raise RuntimeError(f'OpenSSL does not know the groups {names}')
        return self

    def step(self):
        self.lib.ERR_clear_error()
        self.lib.SSL_do_handshake(self.ssl)
        return self

    def output(self):
        room, out = ctypes.create_string_buffer(1 << 16), bytearray()
        while (n := self.lib.BIO_read(self.out, room, len(room))) > 0:
            out += room.raw[:n]
        return bytes(out)

    def done(self):
        return bool(self.lib.SSL_is_init_finished(self.ssl))

    def handshake(self):
        """True when it is done."""
        while self.alive and not self.step().done():
            self.send(self.output())
            got = self.read()
            self.lib.BIO_write(self.input, got, len(got))
        self.send(self.output())
        return self.alive and self.done()

    def seal(self, octets):
        self.lib.SSL_write(self.ssl, octets, len(octets))
        return self

    def opened(self):
        """What the records that are there say."""
        got = self.read()
        self.lib.BIO_write(self.input, got, len(got))
        room = ctypes.create_string_buffer(1 << 16)
        n = self.lib.SSL_read(self.ssl, room, len(room))
        return room.raw[:max(n, 0)]

    def key_updates(self, count):
        """Records that each ask for new keys, and for new ones of the server's."""
        for _ in range(count):
            if self.lib.SSL_key_update(self.ssl, UPDATE_REQUESTED) == 1:
                self.step()
        return self.output()


class Records:
    """Seals records of TLS 1.2 by itself, once a handshake is done: OpenSSL's client begins no second one before the first
    has ended. AES-128-GCM: RFC 5246 §6.3, RFC 5288."""

    def __init__(self, tls):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        lib, room = tls.lib, ctypes.create_string_buffer(48)
        lib.SSL_SESSION_get_master_key(lib.SSL_get_session(tls.ssl), room, 48)
        master = room.raw
        server, client = (self.random(get, tls.ssl) for get in (lib.SSL_get_server_random, lib.SSL_get_client_random))
        keys = self.expand(master, b'key expansion' + server + client, 40)
        self.key, self.salt, self.number = AESGCM(keys[:16]), keys[32:36], 1  # 0 was the handshake's last

    @staticmethod
    def random(get, ssl):
        room = ctypes.create_string_buffer(32)
        get(ssl, room, 32)
        return room.raw

    @staticmethod
    def expand(secret, seed, size):
        out, a = b'', seed
        while len(out) < size:
            a = hmac.digest(secret, a, hashlib.sha256)
            out += hmac.digest(secret, a + seed, hashlib.sha256)
        return out[:size]

    def seal(self, kind, octets):
        number = self.number.to_bytes(8, 'big')
        self.number += 1
        head = bytes([kind]) + TLS12.to_bytes(2, 'big')
        sealed = self.key.encrypt(self.salt + number, octets, number + head + len(octets).to_bytes(2, 'big'))
        return head + (8 + len(sealed)).to_bytes(2, 'big') + number + sealed


MAKING = threading.Lock()  # attacks run beside each other, and the cache alone lets several make it


def flags():
    with MAKING:
        return made()


@functools.cache
def made():
    certificate, key = harness.scratch() / 'attacked.pem', harness.scratch() / 'attacked-key.pem'
    subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2',
                    '-subj', '/CN=localhost', '-keyout', key, '-out', certificate], check=True, stderr=subprocess.DEVNULL)
    return ('--tls-cert', certificate, '--tls-key', key)


def other(target):
    """The client's side of a connection from another address."""
    before, target.source = target.source, OTHER
    tls = Tls(target, wait=5)
    target.source = before
    return tls


def served(tls):
    """Whether a request is answered on it: an attack that is refused at its first byte attacks nothing."""
    tls.seal(post('/v2/models/identity/infer', INFER, JSON)).send(tls.output())
    got, end = b'', time.monotonic() + 5
    while b' 200 OK' not in got and tls.alive and time.monotonic() < end:
        got += tls.opened()
    return b' 200 OK' in got


def floods(target, version, records, rounds):
    """Connections that are served, and then are sent the records, `rounds` times. How many the server has ended before."""
    ended = sent = 0
    while not target.over():
        with Tls(target, version, wait=3) as tls:
            if not tls.handshake():
                continue
            make = records(tls)
            for _ in range(rounds):
                if target.over() or not tls.still_open():
                    break
                octets = make()
                sent += len(octets)
                tls.send(octets)
            ended += not tls.still_open()
    return f'{sent >> 20} MiB sent, {ended} connections ended', ended


def floods_that_end(target, *how, **more):
    """Floods of what the server bounds."""
    said, ended = floods(target, *how, **more)
    if not ended:
        target.broke(said)
    return said


@attack(seconds=20, quick=3, flags=flags)
def tls_renegotiations(target):
    """CVE-2011-1473: renegotiations asked for by the client, 6,000 in one read, and the alerts that refuse them not read."""
    with Tls(target, TLS12, wait=2) as tls:
        if not tls.handshake():
            target.broke('no handshake')
        tls.send(Records(tls).seal(HANDSHAKE, b'\x01\0\0\x02\x03\x03'))  # the first one is refused, not the connection
        tls.sock.settimeout(0.2)
        if tls.read()[:3] != b'\x15\x03\x03':
            target.broke('a renegotiation is not refused by an alert')

    def records(tls):
        sealed = Records(tls)
        return lambda: b''.join(sealed.seal(HANDSHAKE, b'\x01\0\0\x02\x03\x03') for _ in range(6000))
    return floods_that_end(target, TLS12, records, rounds=20)


@attack(seconds=20, quick=3, flags=flags)
def tls_key_updates(target):
    """KeyUpdates without end (TLS 1.3), 4,000 in one read, each of which asks for one of the server's, and nothing is read."""
    with Tls(target, wait=2) as tls:
        if not (tls.handshake() and served(tls)):
            target.broke('no handshake')
        tls.send(tls.key_updates(2))  # few are allowed
        if not served(tls):
            target.broke('two new keys end a connection')
    return floods_that_end(target, TLS13, lambda tls: lambda: tls.key_updates(4000), rounds=5)


@attack(seconds=20, quick=3, flags=flags)
def tls_small_records(target):
    """Requests in records of one byte each, ten thousand records in one read, TLS 1.2 and 1.3."""
    request = post('/v2/models/identity/infer', INFER, JSON)

    def records_13(tls):
        def make():
            for at in range(10_000):
                tls.seal(request[at % len(request):][:1])
            return tls.output()
        return make

    def records_12(tls):
        sealed = Records(tls)
        return lambda: b''.join(sealed.seal(APPLICATION_DATA, request[at % len(request):][:1]) for at in range(8000))
    out, end = [], target.end
    for version, records in ((TLS13, records_13), (TLS12, records_12)):
        target.end = (time.monotonic() + end) / 2 if version == TLS13 else end
        out.append(floods(target, version, records, rounds=5)[0])
    return '; '.join(out)


def little_memory():
    return *flags(), '--slab-budget', '96MiB', '--max-body', '32MiB', '--max-message', '32MiB'


def in_ledger(target):
    """Bytes that requests hold outside of slabs, as the server says it."""
    said = ask(target, b'GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n')[1]
    return int(re.search(rb'weir_tracked_bytes\{kind="input"\} (\d+)', said)[1])


@attack(seconds=25, quick=6, flags=little_memory)
def tls_handshake_memory(target):
    """Handshakes of one client that are begun and left, more than half of a budget of 96 MiB is enough for: the newest are refused."""
    more_descriptors()
    peers, refused, most, served_others, due = [], 0, 0, 0, time.monotonic()
    hello = Tls(target, wait=2).step().output()
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        for _ in range(100):
            peer = Raw(target, wait=5).send(hello)
            if peer.read() == NO_MEMORY:  # else all that the server says: what is not read would hide the end
                refused += 1
                break
            peers.append(peer)
        if time.monotonic() < due:
            continue
        due = time.monotonic() + 0.5
        held = in_ledger(target)
        peers = [p for p in peers if p.still_open()]  # the server ends those of 10 s while more are made
        most = max(most, len(peers))
        if held < len(peers) * HANDSHAKE_BYTES * 9 // 10:
            target.broke(f'{len(peers)} handshakes, and {held >> 20} MiB in the ledger')
        with other(target) as tls:
            served_others += tls.handshake() and served(tls)
    if not refused or not served_others:
        target.broke(f'{most} handshakes at once: {refused} refused, {served_others} of another client served')
    return f'{most} at once, {refused} refused, {served_others} connections of another client served'


@attack(seconds=20, quick=4, flags=flags)
def tls_long_hellos(target):
    """2,000 ClientHellos of which the header has come, and says 128 KiB."""
    more_descriptors()
    start, refused = b'\x16\x03\x01\x20\0\x01\x02\x01\x43' + bytes(100), 0
    while not target.over():
        for _ in range(50):
            with Raw(target, wait=5).send(start) as peer:
                refused += peer.read_all()[:1] == b'\x15'
    if not refused:
        target.broke('none is refused')
    return f'{refused} refused'


@attack(seconds=20, quick=4, flags=flags)
def tls_half_handshakes(target):
    """3,000 handshakes that end behind the client's first message, for which the server has signed, or go on by a byte a second."""
    more_descriptors()
    peers, rest, begun, next_byte = [], {}, 0, time.monotonic()
    while not target.over():
        peers = [p for p in peers if p.still_open()]
        if peers and time.monotonic() - peers[0].begun > HANDSHAKE_S * (4 if harness.SANITIZED else 1):
            target.broke(f'a handshake goes on for {time.monotonic() - peers[0].begun:.0f} s')
            break
        while len(peers) < target.size(3000, 600) and not target.over():
            peer = Tls(target, wait=2)
            hello = peer.step().output()
            half = begun % 3 == 2
            peer.send(hello[:40] if half else hello)
            peer.begun = time.monotonic()
            rest[peer] = hello[40:] if half else b'\x14\x03\x03\0\x01' + b'\x01' * 1000
            peers.append(peer)
            begun += 1
            if begun % 200 == 0:
                break
        if time.monotonic() > next_byte:
            next_byte += 1
            rest = {p: octets[p.offer(octets[:1]) or 0:] for p, octets in rest.items() if p.alive and octets}
    return f'{begun} begun, {len(peers)} at the end'


@attack(seconds=20, quick=3, flags=flags)
def tls_finite_fields(target):
    """DHEat, CVE-2002-20001: one ClientHello with a share of ffdhe8192, sent again and again."""
    with Tls(target, wait=2).offer_groups(b'X25519') as tls:
        if not (tls.handshake() and served(tls)):
            target.broke('no handshake over X25519')
    hello = Tls(target, wait=2).offer_groups(b'ffdhe8192').step().output()
    sent = refused = 0
    while not target.over():
        with Raw(target, wait=3).send(hello) as peer:
            sent += 1
            refused += peer.read_all()[:1] == bytes([ALERT])
    if refused < sent:
        target.broke(f'{sent - refused} of {sent} are not refused')
    return f'{refused} refused'


@attack(seconds=20, quick=3, flags=flags)
def tls_handshakes(target):
    """Handshakes as fast as they go, TLS 1.3 and 1.2, left at once or reset in the middle."""
    done = begun = 0
    while not target.over():
        with Tls(target, (TLS13, TLS12)[begun % 2], wait=3) as tls:
            begun += 1
            if begun % 3 == 0:
                tls.send(tls.step().output())
            else:
                done += tls.handshake()
    if not done:
        target.broke('no handshake')
    return f'{begun} begun, {done} done'
