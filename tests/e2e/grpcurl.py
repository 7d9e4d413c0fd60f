"""What grpcurl does, which Debian has not: reads such a command, asks the server's reflection for the method and its
messages, takes the JSON as strictly as protobuf does, calls, and prints each answer as a line of JSON.

    python3 grpcurl.py <<< "grpcurl -plaintext -d '{…}' 127.0.0.1:8080 package.Service/Method"
"""

import argparse
import json
import re
import shlex
import sys

import harness

import grpc  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory  # noqa: E402


def command(text):
    """Only what the console writes: an option that it does not have is an error."""
    words = argparse.ArgumentParser(prog='grpcurl', exit_on_error=False)
    words.add_argument('-plaintext', action='store_true', required=True)
    words.add_argument('-H', action='append', default=[])
    words.add_argument('-d', required=True)
    words.add_argument('address')
    words.add_argument('method')
    name, *rest = shlex.split(text.replace('\\\n', ''))  # as a shell joins lines
    assert name == 'grpcurl', name
    return words.parse_args(rest)


def pool_of(channel, *symbols):
    """The descriptors of a service, of the messages in an Any, and of all that they import, from the server alone."""
    reflection, reflection_grpc = harness.stubs()('reflection')
    stub, pool, known = reflection_grpc.ServerReflectionStub(channel), descriptor_pool.DescriptorPool(), {}

    def ask(**what):
        answer, = stub.ServerReflectionInfo(iter([reflection.ServerReflectionRequest(**what)]))
        assert answer.WhichOneof('message_response') == 'file_descriptor_response', answer
        for data in answer.file_descriptor_response.file_descriptor_proto:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            known.setdefault(file.name, file)

    def add(name, added):
        if name in added:
            return
        added.add(name)
        if name not in known:
            ask(file_by_filename=name)
        for dependency in known[name].dependency:
            add(dependency, added)
        pool.Add(known[name])

    for symbol in symbols:
        ask(file_containing_symbol=symbol)
    added = set()
    for name in list(known):
        add(name, added)
    return pool


def main():
    asked = command(sys.stdin.read())
    service, method = asked.method.split('/')
    with grpc.insecure_channel(asked.address) as channel:
        pool = pool_of(channel, service, *re.findall(r'"@type": ?"[^"]*/([^"/]+)"', asked.d))
        found = pool.FindServiceByName(service).methods_by_name[method]
        factory = message_factory.MessageFactory(pool)
        request = json_format.Parse(asked.d, factory.GetPrototype(found.input_type)(), descriptor_pool=pool)
        streams = channel.stream_stream(f'/{service}/{method}', lambda m: m.SerializeToString(), factory.GetPrototype(found.output_type).FromString)
        metadata = [tuple(part.strip() for part in field.split(':', 1)) for field in asked.H]
        for answer in streams(iter([request]), metadata=metadata, timeout=harness.PATIENCE):
            print(json.dumps(json_format.MessageToDict(answer, preserving_proto_field_name=True, descriptor_pool=pool)))


main()
