"""Clients that ask without a break and count what they lost, for the time of an upgrade.

Half of the HTTP clients open a connection for each request: whatever goes wrong with it is a loss. The others keep theirs:
a server may close one that is idle at the moment when the next request is written, so a request that got no byte of an
answer on a connection that was used before is sent again, once, on a new one (RFC 9112, section 9.3.1). The gRPC client
waits for its channel to be ready and does not retry.
"""

import http.client
import json
import threading
import time

BODY = json.dumps({'inputs': [{'name': n, 'datatype': 'INT32', 'shape': [1, 16], 'data': list(range(16))} for n in ('INPUT0', 'INPUT1')]})
SUM = [2 * i for i in range(16)]
TIMEOUT_S = 90


class Load:
    def __init__(self, port, keeping=3, fresh=3):
        self.port, self.stopping, self.lock = port, threading.Event(), threading.Lock()
        self.done, self.again, self.longest, self.lost = 0, 0, 0.0, []
        self.threads = [threading.Thread(target=self._guard, args=(work,)) for work in
                        [self._keep] * keeping + [self._open_each_time] * fresh]
        for thread in self.threads:
            thread.start()

    def _guard(self, work):
        try:
            work()
        except Exception as error:  # noqa: B902 (counted)
            self._lose(f'{work.__name__}: {error!r}')

    def _lose(self, why):
        with self.lock:
            self.lost.append(why)

    def _ask(self, connection):
        connection.request('POST', '/v2/models/simple/infer', BODY, {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        data = answer.read()
        if answer.status != 200 or json.loads(data)['outputs'][0]['data'] != SUM:
            self._lose(f'{answer.status}: {data[:200]!r}')

    def _timed(self, work):
        begun = time.monotonic()
        work()
        with self.lock:
            self.done += 1
            self.longest = max(self.longest, time.monotonic() - begun)

    def _new(self):
        return http.client.HTTPConnection('127.0.0.1', self.port, timeout=TIMEOUT_S)

    def _open_each_time(self):
        while not self.stopping.is_set():
            def once():
                connection = self._new()
                try:
                    self._ask(connection)
                except (OSError, http.client.HTTPException) as error:
                    self._lose(f'a new connection: {error!r}')
                finally:
                    connection.close()
            self._timed(once)

    def _keep(self):
        connection, used = self._new(), False

        def once():
            nonlocal connection, used
            try:
                self._ask(connection)
            except (http.client.RemoteDisconnected, ConnectionError) as error:
                connection.close()
                if not used:
                    return self._lose(f'a new connection: {error!r}')
                with self.lock:
                    self.again += 1
                connection, used = self._new(), False
                try:
                    self._ask(connection)
                except (OSError, http.client.HTTPException) as second:
                    return self._lose(f'the second time: {second!r}')
            used = connection.sock is not None
        while not self.stopping.is_set():
            self._timed(once)
        connection.close()

    def wait_for(self, more):
        """Until so many more requests were answered."""
        with self.lock:
            goal = self.done + more
        end = time.monotonic() + TIMEOUT_S
        while self.done < goal and time.monotonic() < end:
            if self.lost:
                break
            time.sleep(0.01)
        if self.done < goal:
            self._lose(f'{goal - self.done} answers did not come')

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return f'{self.done} answers, {len(self.lost)} lost, {self.again} sent again, {self.longest:.1f} s at most'
