"""Bad input to the endpoints of text: each number at its edges, very long prompts of one character, damaged pictures, clients
that vanish at any byte. A clear answer that names the field; afterwards nothing is held, and the server is as good as new."""

import base64
import http.client
import json
import random
import re
import socket
import struct
import time
import zlib

import harness
from harness import curl
from proto_bytes import pb as proto_field, varint

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')
pb, rpc = harness.stubs()('salience')

BEYOND = [-1, 2**31, 2**32, 2**63 - 1, 2**63, 2**64, -2**31 - 1, -2**63, -2**63 - 1, 0.5, 1e300, -1e300, '1e999', 'NaN', '-Infinity']
# name: least, most that is fine; the text endpoints that take it
WHOLE = {'max_tokens': (0, 2**32 - 1), 'min_tokens': (0, 2**32 - 1), 'n': (1, 128), 'logprobs': (0, 20), 'prompt_logprobs': (0, 20),
         'truncate_prompt_tokens': (1, None), 'top_k': (-1, 2**32 - 1)}
REAL = {'temperature': (0, 100), 'top_p': (0, 1), 'min_p': (0, 1), 'presence_penalty': (-2, 2), 'frequency_penalty': (-2, 2),
        'repetition_penalty': (0, 100)}
GENERATE = ('max_tokens', 'min_tokens', 'top_k', *REAL)


def edges(name):
    if name in REAL:
        least, most = REAL[name]
        return [v for v in [least - 1e-3, most + 1e-3, *BEYOND] if not isinstance(v, (int, float)) or not least <= v <= most]
    least, most = WHOLE[name]
    return [v for v in [least - 1, *([most + 1] if most else []), *BEYOND]
            if (isinstance(v, str) or int(v) != v or v < least or v > (2**31 - 1 if most is None else most))
            and (name, v) != ('truncate_prompt_tokens', -1)]  # -1: as many as the model takes


def body(fields, name, value):
    """JSON with a value that json.dumps would not write."""
    text = json.dumps({**fields, name: '@'})
    return text.replace('"@"', value if isinstance(value, str) else repr(value)).encode()


def png(width, height, rows=b''):
    def chunk(kind, data):
        return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
    head = struct.pack('>IIBBBBB', width, height, 8, 2, 0, 0, 0)
    return b'\x89PNG\r\n\x1a\n' + chunk(b'IHDR', head) + chunk(b'IDAT', zlib.compress(rows)) + chunk(b'IEND', b'')


class TextHostile(harness.Case):
    def post(self, path, data):
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE)
        connection.request('POST', path, data, {'Content-Type': 'application/json'})
        answer = connection.getresponse()
        out = answer.status, answer.read().decode()
        connection.close()
        return out

    def test_numbers_at_their_edges_are_named(self):
        text = {'/v1/completions': ({'model': 'chat', 'prompt': 'x', 'max_tokens': 1}, [*WHOLE, *REAL]),
                '/v2/models/chat/generate': ({'text_input': 'x', 'max_tokens': 1}, GENERATE),
                '/v2/models/chat/generate_stream': ({'text_input': 'x', 'max_tokens': 1}, GENERATE)}
        for path, (fields, names) in text.items():
            for name in names:
                for value in edges(name):
                    with self.subTest(f'{path} {name} {value}'):
                        status, answer = self.post(path, body(fields, name, value))
                        self.assertEqual(400, status, answer)
                        named = name in answer or 'JSON' in answer or 'json' in answer
                        self.assertTrue(named, answer)

    def test_numbers_of_other_members_are_named(self):
        chat = {'model': 'chat', 'max_tokens': 1, 'messages': [{'role': 'user', 'content': 'x'}]}
        completion = {'model': 'chat', 'prompt': 'x', 'max_tokens': 1}
        odd = [v for v in BEYOND if v != '-Infinity']
        plain = {name: edges(name) for name in (*WHOLE, *REAL) if name != 'logprobs'}  # of a chat, that is a flag
        tables = [('/v1/chat/completions', chat, {**plain, 'top_logprobs': [21, *odd], 'max_completion_tokens': odd, 'priority': [-1, 2**32, *odd[3:]]}),
                  ('/v1/completions', completion, {'priority': [-1, 2**32, *odd[3:]], 'seed': [2**64, -2**63 - 1, 0.5, 1e300, '1e999', 'NaN']}),
                  ('/v1/embeddings', {'model': 'chat', 'input': 'x'}, {'dimensions': [0, 257, *odd], 'truncate_prompt_tokens': [0, *odd[1:]]}),
                  ('/tokenize', {'model': 'chat', 'prompt': 'x'}, {'add_special_tokens': [2, *odd]})]
        for path, fields, names in tables:
            for name, values in names.items():
                for value in values:
                    if name == 'top_logprobs':
                        fields = {**fields, 'logprobs': True}
                    if name.endswith('max_completion_tokens') and value == 2**31:
                        continue  # cut to what the context has room for
                    with self.subTest(f'{path} {name} {value}'):
                        status, answer = self.post(path, body(fields, name, value))
                        self.assertEqual(400, status, answer)
                        named = name in answer or 'max_tokens' in answer or 'JSON' in answer or 'json' in answer
                        self.assertTrue(named, answer)

    def test_ids_that_are_none_are_named(self):
        completion = {'model': 'chat', 'prompt': 'x', 'max_tokens': 1}
        for value in (3072, *BEYOND):
            word = value if isinstance(value, str) else repr(value)
            for path, text, name in [('/v1/completions', '{"model":"chat","prompt":[1,%s]}', 'prompt'),
                                     ('/v1/completions', '{"model":"chat","prompt":[[1],[%s]]}', 'prompt'),
                                     ('/v1/completions', '{"model":"chat","prompt":"x","max_tokens":1,"stop_token_ids":[%s]}', 'stop_token_ids'),
                                     ('/v1/completions', '{"model":"chat","prompt":"x","max_tokens":1,"logit_bias":{"%s":1}}', 'logit_bias'),
                                     ('/v1/completions', '{"model":"chat","prompt":"x","max_tokens":1,"readouts":[[0,%s]]}', 'readouts'),
                                     ('/v1/embeddings', '{"model":"chat","input":[%s]}', 'input'),
                                     ('/detokenize', '{"model":"chat","tokens":[%s]}', 'tokens')]:
                if name == 'readouts' and value in (3072, 2**31):
                    continue  # an end that lies behind the text
                with self.subTest(f'{path} {name} {value}'):
                    status, answer = self.post(path, (text % word).encode())
                    self.assertEqual(400, status, answer)
                    self.assertTrue(name in answer or 'JSON' in answer or 'json' in answer, answer)
        for value in (100.1, -100.1, *BEYOND[1:]):
            if value != 0.5:
                status, answer = self.post('/v1/completions', body(completion, 'logit_bias', '{"1":%s}' % value))
                self.assertEqual((400, True), (status, 'logit_bias' in answer), f'{value} {answer}')

    def test_numbers_of_sessions_are_named(self):
        whole = {'offset': [], 'max_tokens': [], 'logprob_top_k': [129], 'top_k': [], 'priority': [-1, 11]}
        real = {'temperature': [-0.001, 100.001], 'top_p': [-0.001, 1.001]}
        lists = {'append_tokens': '[%s]', 'stop_token_ids': '[%s]', 'logprobs_ranges': '[{"start":0,"end":%s}]',
                 'readout_ranges': '[{"start":%s,"end":4294967295}]',
                 'images': '[{"bytes":"eA==","mime":"image/png","pad_range_start":0,"pad_range_end":%s}]'}
        url = '/salience.v1.Salience/'
        session = json.loads(self.post(url + 'OpenSession', b'{}')[1])['session_id']
        request = {'session_id': session, 'append_tokens': [1], 'max_tokens': 1}
        beyond = [-1, 2**32, 2**63, 2**64, 0.5, 1e300, '1e999', 'NaN', '"NaN"', '"Infinity"', '"1e999"']
        for name, more in {**whole, **real, **{n: [] for n in lists}}.items():
            for value in [*more, *beyond]:
                if name in real and value == 0.5:
                    continue
                word = value if isinstance(value, str) else repr(value)
                with self.subTest(f'{name} {value}'):
                    status, answer = self.post(url + 'Generate', body(request, name, lists.get(name, '%s') % word))
                    self.assertEqual(400, status, answer)
                    camel = re.sub('_(.)', lambda m: m[1].upper(), name)
                    self.assertTrue(name in answer or camel in answer or '^' in answer, answer)
        for value in beyond:
            word = value if isinstance(value, str) else repr(value)
            status, answer = self.post(url + 'ForkSession', body({'session_id': session}, 'at_position', word))
            self.assertEqual(400, status, f'{value} {answer}')
        self.assertEqual({}, json.loads(self.post(url + 'DumpSession', json.dumps({'session_id': session}))[1]))
        self.assertEqual(200, self.post(url + 'CloseSession', json.dumps({'session_id': session}))[0])

    def test_varints_beyond_their_fields_are_not_cut(self):
        with grpc.insecure_channel(self.server.address) as channel:
            stub = rpc.SalienceStub(channel)
            session = stub.OpenSession(pb.OpenSessionRequest()).session_id
            request = pb.GenerateRequest(session_id=session, append_tokens=[1], max_tokens=1).SerializeToString()
            generate = channel.unary_stream('/salience.v1.Salience/Generate', lambda b: b, pb.GenerateEvent.FromString)
            for value in (2**32, 2**32 + 1, 2**63, 2**64 - 1):
                for name, field in {'append_tokens': bytes([2 << 3]) + varint(value), 'offset': bytes([3 << 3]) + varint(value),
                                    'max_tokens': bytes([5 << 3]) + varint(value), 'logprob_top_k': bytes([7 << 3]) + varint(value),
                                    'top_k': bytes([11 << 3]) + varint(value), 'stop_token_ids': proto_field(12, varint(value)),
                                    'priority': bytes([13 << 3]) + varint(value),
                                    'logprobs_ranges': proto_field(6, bytes([2 << 3]) + varint(value)),
                                    'readout_ranges': proto_field(8, bytes([1 << 3]) + varint(value)),
                                    'images': proto_field(14, proto_field(1, b'x') + proto_field(2, b'image/png') + bytes([4 << 3]) + varint(value))}.items():
                    with self.subTest(f'{name} {value}'):
                        with self.assertRaises(grpc.RpcError) as caught:
                            list(generate(request + field, timeout=harness.PATIENCE))
                        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
                        self.assertIn(name, caught.exception.details())
            for bits in (0x7fc00000, 0x7f800000, 0xff800000, 0xffc00001, 0x80000001, 0x42c80001):  # NaNs, infinities, beyond either end
                for name, key in {'temperature': 0x4d, 'top_p': 0x55}.items():
                    with self.assertRaises(grpc.RpcError) as caught:
                        list(generate(request + bytes([key]) + struct.pack('<I', bits), timeout=harness.PATIENCE))
                    self.assertIn(name, caught.exception.details())
            self.assertEqual([], list(stub.DumpSession(pb.DumpSessionRequest(session_id=session)).tokens))
            stub.CloseSession(pb.CloseSessionRequest(session_id=session))

    def test_numbers_of_tensor_requests_are_named(self):
        with grpc.insecure_channel(self.server.address) as channel:
            stub = oip_grpc.GRPCInferenceServiceStub(channel)
            for name in GENERATE:
                for value in edges(name):
                    if isinstance(value, str):
                        value = float(value)
                    request = oip.ModelInferRequest(model_name='chat')
                    request.inputs.add(name='text_input', datatype='BYTES', shape=[1]).contents.bytes_contents.append(b'x')
                    request.parameters['max_tokens'].int64_param = 1
                    if isinstance(value, float):
                        request.parameters[name].double_param = value
                    elif -2**63 <= value < 2**63:
                        request.parameters[name].int64_param = value
                    elif 0 <= value < 2**64:
                        request.parameters[name].uint64_param = value
                    else:
                        continue
                    with self.subTest(f'{name} {value}'):
                        with self.assertRaises(grpc.RpcError) as caught:
                            stub.ModelInfer(request, timeout=harness.PATIENCE)
                        self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
                        self.assertIn(name, caught.exception.details())

    def test_a_mebibyte_of_one_character(self):
        for character in ('a', ' ', '\n', '\0', '\u00e9', '\U0001f600', '\\', '<'):
            text = character * ((1 << 20) // len(character.encode()))
            some = text[:len(text) // 5]  # more than this is refused before it is looked at
            status, answer = self.post('/tokenize', json.dumps({'model': 'chat', 'prompt': some}, ensure_ascii=False).encode())
            self.assertEqual(200, status, answer[:200])
            tokens = json.loads(answer)['tokens']
            status, answer = self.post('/detokenize', json.dumps({'model': 'chat', 'tokens': tokens}).encode())
            self.assertEqual((200, some), (status, json.loads(answer)['prompt']), character)
            for path, fields in [('/tokenize', {'model': 'chat', 'prompt': text}),
                                 ('/v1/completions', {'model': 'chat', 'prompt': text}),
                                 ('/v1/chat/completions', {'model': 'chat', 'messages': [{'role': 'user', 'content': text}]}),
                                 ('/v1/embeddings', {'model': 'chat', 'input': text}),
                                 ('/v2/models/chat/generate', {'text_input': text}),
                                 ('/v2/models/chat/infer', {'inputs': [{'name': 'text_input', 'datatype': 'BYTES', 'shape': [1],
                                                                        'data': [text]}]})]:
                status, answer = self.post(path, json.dumps(fields, ensure_ascii=False).encode())
                self.assertIn(status, (400, 413), f'{path} {character!r} {answer[:200]}')  # as JSON some are six times as long
                self.assertRegex(answer, 'context|fit|limit')

    def test_pictures_that_are_none(self):
        whole = png(8, 8, (b'\0' + b'\x80' * 24) * 8)
        dice = random.Random(7)
        pictures = [b'', b'GIF89a', png(65535, 65535), png(0, 8), png(2**31, 1), png(1 << 16, 1 << 16), whole[:-20], whole[:40]]
        for _ in range(60):
            damaged = bytearray(whole)
            for _ in range(dice.randrange(1, 4)):
                damaged[dice.randrange(len(damaged))] = dice.randrange(256)
            pictures.append(bytes(damaged))
        for picture in [*pictures, whole]:
            url = 'data:image/png;base64,' + base64.b64encode(picture).decode()
            fields = {'model': 'chat', 'max_tokens': 1, 'messages': [
                {'role': 'user', 'content': [{'type': 'text', 'text': '?'}, {'type': 'image_url', 'image_url': {'url': url}}]}]}
            status, answer = self.post('/v1/chat/completions', json.dumps(fields))
            self.assertIn(status, (200, 400), answer)
            if status == 400:
                self.assertRegex(answer, 'image')
                self.assertNotRegex(answer, '0x[0-9a-f]{6}')
        self.assertEqual(200, status, answer)

    def test_clients_that_vanish_at_any_byte_leave_nothing(self):
        dice = random.Random(11)
        long_text = 'word ' * 4000
        asks = [('/v1/completions', {'model': 'chat', 'prompt': 'curl', 'max_tokens': 900, 'ignore_eos': True, 'stream': True}),
                ('/v1/chat/completions', {'model': 'chat', 'messages': [{'role': 'user', 'content': long_text}], 'stream': True}),
                ('/v1/completions', {'model': 'chat', 'prompt': long_text}),
                ('/tokenize', {'model': 'chat', 'prompt': long_text}),
                ('/v2/models/chat/generate_stream', {'text_input': 'curl', 'max_tokens': 900, 'ignore_eos': True}),
                ('/v2/models/chat/generate', {'text_input': long_text})]
        for i in range(240):
            path, fields = asks[i % len(asks)]
            data = json.dumps(fields).encode()
            data = f'POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n'.encode() + data
            with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as s:
                if dice.random() < 0.4:
                    s.sendall(data[:dice.randrange(len(data))])
                else:
                    s.sendall(data)
                    if dice.random() < 0.7:
                        s.recv(1 + dice.randrange(600))
                if dice.random() < 0.5:
                    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        held = r'weir_model_(?:kv_blocks|sequences)\{model="chat",version="1",state="(?:used|running|waiting)"\} (\d+)'
        end, counts = time.monotonic() + harness.PATIENCE, [1]
        while time.monotonic() < end and (any(counts) or not counts or curl(self.server.url('/load')).json()['server_load']):
            counts = [int(n) for n in re.findall(held, curl(self.server.url('/metrics')).body.decode())]
        self.assertEqual([0, 0, 0], counts)
        self.assertEqual({'server_load': 0}, curl(self.server.url('/load')).json())
        status, answer = self.post('/v1/completions', json.dumps({'model': 'chat', 'prompt': 'curl is', 'max_tokens': 4}))
        self.assertEqual(200, status, answer)


if __name__ == '__main__':
    harness.main()
