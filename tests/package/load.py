"""Clients that ask without a break and count what they lost, for the time of an upgrade.

Half of the HTTP clients open a connection for each request: whatever goes wrong with it is a loss. The others keep theirs:
a server may close one that is idle at the moment when the next request is written, so a request that got no byte of an
answer on a connection that was used before is sent again, once, on a new one (RFC 9112, section 9.3.1). The gRPC clients
wait for their channel to be ready and have no retry policy: each call that fails is a loss. What gRPC does by itself they
leave on: it sends again what never left the client (A6, transparent retries). Without that, a call that finds its transport
between the arrival of a GOAWAY(2^31-1) and the channel's notice of it fails unsent, whatever the server does.
"""

import http.client
import json
import struct
import threading
import time

import grpc

BODY = json.dumps({'inputs': [{'name': n, 'datatype': 'INT32', 'shape': [1, 16], 'data': list(range(16))} for n in ('INPUT0', 'INPUT1')]})
SUM = [2 * i for i in range(16)]
TIMEOUT_S = 90
INFER_RPC = '/inference.GRPCInferenceService/ModelInfer'


def field(number, payload):
    """A protobuf field of type LEN; the payload is short."""
    return bytes([number << 3 | 2, len(payload)]) + payload


def infer_request():
    """inference.ModelInferRequest with the tensors of BODY, in raw_input_contents."""
    data = struct.pack('<16i', *range(16))
    inputs = [field(5, field(1, name) + field(2, b'INT32') + field(3, bytes([1, 16]))) for name in (b'INPUT0', b'INPUT1')]
    return field(1, b'simple') + b''.join(inputs) + 2 * field(7, data)


class Load:
    def __init__(self, port, keeping=3, fresh=3, grpc_clients=2):
        self.port, self.stopping, self.lock = port, threading.Event(), threading.Lock()
        self.done, self.grpc_done, self.again, self.longest, self.lost = 0, 0, 0, 0.0, []
        self.threads = [threading.Thread(target=self._guard, args=(work,)) for work in
                        [self._keep] * keeping + [self._open_each_time] * fresh + [self._call] * grpc_clients]
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

    def _call(self):
        options = [('grpc.initial_reconnect_backoff_ms', 100), ('grpc.min_reconnect_backoff_ms', 100), ('grpc.max_reconnect_backoff_ms', 500)]
        request, wanted = infer_request(), struct.pack('<16i', *SUM)
        with grpc.insecure_channel(f'127.0.0.1:{self.port}', options) as channel:
            method = channel.unary_unary(INFER_RPC)

            def once():
                try:
                    answer = method(request, timeout=TIMEOUT_S, wait_for_ready=True)
                except grpc.RpcError as error:
                    return self._lose(f'gRPC: {error.code()}: {error.details()}')
                if wanted not in answer:
                    return self._lose(f'gRPC: {answer[:200]!r}')
                with self.lock:
                    self.grpc_done += 1
            while not self.stopping.is_set():
                self._timed(once)

    def wait_for(self, more):
        """Until so many more requests were answered, over HTTP and gRPC each."""
        with self.lock:
            goal, grpc_goal = self.done + more, self.grpc_done + more
        end = time.monotonic() + TIMEOUT_S

        def missing():
            return max(0, goal - self.done) + max(0, grpc_goal - self.grpc_done)
        while missing() and time.monotonic() < end and not self.lost:
            time.sleep(0.01)
        if missing():
            self._lose(f'{missing()} answers did not come')

    def stop(self):
        self.stopping.set()
        for thread in self.threads:
            thread.join()
        return f'{self.done} answers, {self.grpc_done} of them over gRPC, {len(self.lost)} lost, {self.again} sent again, {self.longest:.1f} s at most'
