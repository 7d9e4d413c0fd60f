"""gRPC's interoperability cases (grpc's doc/interop-test-descriptions.md) over python3-grpcio, with the official clients'
flags. `--test_case all`, or several with commas, runs them on one channel and prints `N passed, N failed`.

What grpcio does not show or cannot do (whether a message came compressed, one plain message in a compressed stream) is
looked at octet by octet in tests/e2e/interop_test.py.
"""

import argparse
import pathlib
import queue
import shutil
import subprocess
import sys
import tempfile
import traceback

import grpc

PROTOS = pathlib.Path('/usr/share/grpc-proto/grpc/testing')
PATIENCE = 240
SPECIAL = '\t\ntest with whitespace\r\nand Unicode BMP ☺ and non-BMP 😈\t\n'


def generate(out):
    """Modules of the messages. The files are flat here: a package `grpc.testing` would hide in grpcio's."""
    for name in ('empty', 'messages', 'test'):
        text = (PROTOS / f'{name}.proto').read_text().replace('import "grpc/testing/', 'import "')
        (out / f'{name}.proto').write_text(text)
    plugin = shutil.which('grpc_python_plugin')
    subprocess.run(['protoc', '-I', str(out), f'--python_out={out}', f'--grpc_out={out}', f'--plugin=protoc-gen-grpc={plugin}',
                    *map(str, out.glob('*.proto'))], check=True)
    sys.path.insert(0, str(out))
    import empty_pb2
    import messages_pb2
    import test_pb2_grpc
    return empty_pb2, messages_pb2, test_pb2_grpc


def expect(wanted, found):
    assert wanted == found, f'wanted {wanted!r}, found {found!r}'


def fails(code, call):
    """The error that a call ends with, of that code."""
    try:
        found = call()
    except grpc.RpcError as error:
        expect(code, error.code())
        return error
    raise AssertionError(f'wanted {code}, found an answer of {len(str(found))} characters')


class Cases:
    def __init__(self, args, messages):
        self.args, (self.empty, self.pb, self.rpc) = args, messages
        self.channel = self.connect()
        self.states = []
        self.channel.subscribe(self.states.append)
        self.stub = self.rpc.TestServiceStub(self.channel)

    def connect(self):
        address = f'{self.args.server_host}:{self.args.server_port}'
        options = [('grpc.use_local_subchannel_pool', 1)]
        if not self.args.use_tls:
            return grpc.insecure_channel(address, options)
        if self.args.server_host_override:
            options.append(('grpc.ssl_target_name_override', self.args.server_host_override))
        roots = pathlib.Path(self.args.ca_file).read_bytes() if self.args.ca_file else None
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(roots), options)

    # --- messages
    def payload(self, size):
        return self.pb.Payload(body=bytes(size))

    def simple(self, request_size=271828, response_size=314159, **more):
        return self.pb.SimpleRequest(payload=self.payload(request_size), response_size=response_size, **more)

    def output(self, *sizes, request_size=None, **more):
        parameters = [self.pb.ResponseParameters(size=size) for size in sizes]
        payload = None if request_size is None else self.payload(request_size)
        return self.pb.StreamingOutputCallRequest(response_parameters=parameters, payload=payload, **more)

    def input(self, size, compressed=None):
        wanted = None if compressed is None else self.pb.BoolValue(value=compressed)
        return self.pb.StreamingInputCallRequest(payload=self.payload(size), expect_compressed=wanted)

    def large(self, stub=None, **more):
        answer = (stub or self.stub).UnaryCall(self.simple(**more), timeout=PATIENCE)
        expect(bytes(314159), answer.payload.body)

    # --- cases
    def empty_unary(self):
        expect(self.empty.Empty(), self.stub.EmptyCall(self.empty.Empty(), timeout=PATIENCE))

    def large_unary(self):
        self.large()

    def client_compressed_unary(self):
        yes, no = self.pb.BoolValue(value=True), self.pb.BoolValue(value=False)
        request = self.simple(expect_compressed=yes)
        fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.stub.UnaryCall(request, timeout=PATIENCE))
        answer = self.stub.UnaryCall(request, compression=grpc.Compression.Gzip, timeout=PATIENCE)
        expect(314159, len(answer.payload.body))
        self.large(expect_compressed=no)

    def server_compressed_unary(self):
        for wanted in (True, False):
            self.large(response_compressed=self.pb.BoolValue(value=wanted))

    def client_streaming(self):
        answer = self.stub.StreamingInputCall(map(self.input, (27182, 8, 1828, 45904)), timeout=PATIENCE)
        expect(74922, answer.aggregated_payload_size)

    def client_compressed_streaming(self):
        requests = [self.input(size, compressed=True) for size in (27182, 45904)]
        fails(grpc.StatusCode.INVALID_ARGUMENT, lambda: self.stub.StreamingInputCall(iter(requests[:1]), timeout=PATIENCE))
        answer = self.stub.StreamingInputCall(iter(requests), compression=grpc.Compression.Gzip, timeout=PATIENCE)
        expect(73086, answer.aggregated_payload_size)

    def server_streaming(self, **more):
        sizes = [31415, 9, 2653, 58979]
        answers = self.stub.StreamingOutputCall(self.output(*sizes, **more), timeout=PATIENCE)
        expect(sizes, [len(answer.payload.body) for answer in answers])

    def server_compressed_streaming(self):
        request = self.output(31415, 92653)
        for parameters, wanted in zip(request.response_parameters, (True, False)):
            parameters.compressed.value = wanted
        answers = self.stub.StreamingOutputCall(request, timeout=PATIENCE)
        expect([31415, 92653], [len(answer.payload.body) for answer in answers])

    def ping_pong(self):
        requests = queue.Queue()
        answers = self.stub.FullDuplexCall(iter(requests.get, None), timeout=PATIENCE)
        for request_size, size in ((27182, 31415), (8, 9), (1828, 2653), (45904, 58979)):
            requests.put(self.output(size, request_size=request_size))
            expect(size, len(next(answers).payload.body))
        requests.put(None)
        expect([], list(answers))

    def empty_stream(self):
        expect([], list(self.stub.FullDuplexCall(iter(()), timeout=PATIENCE)))

    def custom_metadata(self):
        initial = ('x-grpc-test-echo-initial', 'test_initial_metadata_value')
        trailing = ('x-grpc-test-echo-trailing-bin', b'\xab\xab\xab')
        _, call = self.stub.UnaryCall.with_call(self.simple(), metadata=(initial, trailing), timeout=PATIENCE)
        stream = self.stub.FullDuplexCall(iter([self.output(314159, request_size=271828)]), metadata=(initial, trailing), timeout=PATIENCE)
        expect(1, len(list(stream)))
        for done in (call, stream):
            assert initial in [tuple(pair) for pair in done.initial_metadata()], done.initial_metadata()
            assert trailing in [tuple(pair) for pair in done.trailing_metadata()], done.trailing_metadata()

    def status_code_and_message(self):
        status = self.pb.EchoStatus(code=2, message='test status message')
        error = fails(grpc.StatusCode.UNKNOWN, lambda: self.stub.UnaryCall(self.pb.SimpleRequest(response_status=status), timeout=PATIENCE))
        expect('test status message', error.details())
        request = self.output(response_status=status)
        error = fails(grpc.StatusCode.UNKNOWN, lambda: list(self.stub.FullDuplexCall(iter([request]), timeout=PATIENCE)))
        expect('test status message', error.details())

    def special_status_message(self):
        status = self.pb.EchoStatus(code=2, message=SPECIAL)
        error = fails(grpc.StatusCode.UNKNOWN, lambda: self.stub.UnaryCall(self.pb.SimpleRequest(response_status=status), timeout=PATIENCE))
        expect(SPECIAL, error.details())

    def unimplemented_method(self):
        fails(grpc.StatusCode.UNIMPLEMENTED, lambda: self.stub.UnimplementedCall(self.empty.Empty(), timeout=PATIENCE))

    def unimplemented_service(self):
        stub = self.rpc.UnimplementedServiceStub(self.channel)
        fails(grpc.StatusCode.UNIMPLEMENTED, lambda: stub.UnimplementedCall(self.empty.Empty(), timeout=PATIENCE))

    def cancel_after_begin(self):
        requests = queue.Queue()  # nothing comes of it: the call is open
        call = self.stub.StreamingInputCall.future(iter(requests.get, None), timeout=PATIENCE)
        call.cancel()
        expect(grpc.StatusCode.CANCELLED, call.code())
        requests.put(None)

    def cancel_after_first_response(self):
        requests = queue.Queue()
        answers = self.stub.FullDuplexCall(iter(requests.get, None), timeout=PATIENCE)
        requests.put(self.output(31415, request_size=27182))
        expect(31415, len(next(answers).payload.body))
        answers.cancel()
        fails(grpc.StatusCode.CANCELLED, lambda: next(answers))
        requests.put(None)

    def timeout_on_sleeping_server(self):
        requests = queue.Queue()
        requests.put(self.output(request_size=27182))
        fails(grpc.StatusCode.DEADLINE_EXCEEDED, lambda: list(self.stub.FullDuplexCall(iter(requests.get, None), timeout=0.05)))
        requests.put(None)

    def concurrent_large_unary(self):
        calls = [self.stub.UnaryCall.future(self.simple(), timeout=PATIENCE) for _ in range(self.args.concurrent)]
        for call in calls:
            expect(314159, len(call.result().payload.body))

    def rpc_soak(self):
        for _ in range(self.args.soak_iterations):
            self.large()

    def channel_soak(self):
        for _ in range(self.args.soak_iterations):
            with self.connect() as channel:
                self.large(self.rpc.TestServiceStub(channel))

    def long_lived_channel(self):
        """The channel that every case has used has never lost its connection."""
        self.large()
        assert grpc.ChannelConnectivity.READY in self.states, self.states
        assert not {grpc.ChannelConnectivity.TRANSIENT_FAILURE, grpc.ChannelConnectivity.SHUTDOWN} & set(self.states), self.states
        expect(1, self.states.count(grpc.ChannelConnectivity.READY))


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument('--server_host', default='127.0.0.1')
    parser.add_argument('--server_port', required=True)
    parser.add_argument('--server_host_override')
    parser.add_argument('--use_tls', type=lambda word: word == 'true', default=False)
    parser.add_argument('--ca_file')
    parser.add_argument('--test_case', default='all')
    parser.add_argument('--soak_iterations', type=int, default=20)
    parser.add_argument('--concurrent', type=int, default=1000)
    return parser.parse_args()


def main():
    args = read_arguments()
    names = [name for name, member in vars(Cases).items() if callable(member)]
    names = names[names.index('empty_unary'):] if args.test_case == 'all' else args.test_case.split(',')
    failed = 0
    with tempfile.TemporaryDirectory(prefix='weir-interop-') as scratch:
        cases = Cases(args, generate(pathlib.Path(scratch)))
        for name in names:
            try:
                getattr(cases, name)()
            except Exception:
                failed += 1
                print(f'FAILED {name}\n{traceback.format_exc()}')
        cases.channel.close()
    print(f'{len(names) - failed} passed, {failed} failed')
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
