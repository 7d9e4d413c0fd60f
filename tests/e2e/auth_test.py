"""Who may do what: every route and every method of every protocol, as `weir routes` names them, asked with no key, a wrong
one, one that has expired, one without the role, one for other models and one that is over its limit. A new route or
method is in here by itself, in every form that it has (REST, gRPC, gRPC-Web, JSON, WebSocket)."""

import base64
import hashlib
import http.client
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

import grpc

import harness

ROLES = {'infer', 'admin', 'metrics'}
# The roles of which one opens routes of a permission; health is open to everybody.
OPENS = {'health': set(), 'metrics': {'metrics', 'admin'}, 'observe': {'metrics', 'admin'}, 'read': {'infer', 'admin'}, 'infer': {'infer'}, 'admin': {'admin'}}
MODEL = 'chat'  # stands for {model} in paths, and is in the bodies below

# How a request names MODEL, for routes whose path does not: JSON, from which the RPC forms are made as well.
CHAT = {'model': MODEL, 'messages': [{'role': 'user', 'content': 'hi'}]}
BODIES = {
    **{path: CHAT for path in ('/v1/chat/completions', '/v1/chat/completions/input_tokens', '/chat/completions/input_tokens')}, '/v1/completions': {'model': MODEL, 'prompt': 'a'},
    **{path: {'model': MODEL, 'input': 'a'} for path in ('/v1/responses', '/v1/responses/input_tokens', '/v1/responses/compact', '/responses', '/responses/input_tokens')},
    **{path: {'model': MODEL, 'query': 'a', 'documents': ['b']} for path in ('/rerank', '/v1/rerank', '/v2/rerank', '/reranking', '/v1/reranking')},
    **{path: {'model': MODEL, 'text_1': 'a', 'text_2': 'b'} for path in ('/score', '/v1/score')}, '/classify': {'model': MODEL, 'input': 'a'},
    '/generative_scoring': {'model': MODEL, 'query': 'a', 'items': ['b'], 'label_token_ids': [1]},
    **{f'/v1/{what}_lora_adapter': {'lora_name': MODEL, 'lora_path': 'x', 'base_model_name': MODEL} for what in ('load', 'unload')},
    '/v1/embeddings': {'model': MODEL, 'input': 'a'}, '/pooling': {'model': MODEL, 'input': 'a'}, '/embed': {'model': MODEL, 'inputs': 'a'},
    **{path: {'model': MODEL, 'texts': ['a']} for path in ('/v1/embed', '/v2/embed')}, '/tokenize': {'model': MODEL, 'prompt': 'a'},
    '/detokenize': {'model': MODEL, 'tokens': [1]}, '/generate': {'model': MODEL, 'text': 'a'},
    **{path: {'model': MODEL, 'inputs': 'a'} for path in ('/generate_stream', '/invocations')},
    **{path: {'model': MODEL, 'prompt': 'a'} for path in ('/completion', '/completions')}, '/apply-template': CHAT,
    '/infill': {'model': MODEL, 'input_prefix': 'a', 'input_suffix': 'b'}, **{path: {'model': MODEL, 'content': 'a'} for path in ('/embedding', '/embeddings')},
    '/api/chat': CHAT, '/api/generate': {'model': MODEL, 'prompt': 'a', 'stream': False}, '/api/embed': {'model': MODEL, 'input': 'a'},
    '/api/embeddings': {'model': MODEL, 'prompt': 'a'}, '/api/show': {'model': MODEL}, '/api/pull': {'model': MODEL},
    '/v1/messages': {**CHAT, 'max_tokens': 1}, '/v1/messages/count_tokens': CHAT,
    '/inference.GRPCInferenceService/ModelInfer': {'model_name': MODEL},
    '/inference.GRPCInferenceService/ModelMetadata': {'name': MODEL},
    '/inference.GRPCInferenceService/ModelConfig': {'name': MODEL},
    '/inference.GRPCInferenceService/ModelStatistics': {'name': MODEL},
    '/inference.GRPCInferenceService/TraceSetting': {'model_name': MODEL},
    '/inference.GRPCInferenceService/RepositoryModelLoad': {'model_name': MODEL},
    '/inference.GRPCInferenceService/RepositoryModelUnload': {'model_name': MODEL},
    '/salience.v1.Salience/OpenSession': {'model': MODEL},
    **{f'/weir.forward.v1.Forward/{method}': {'model': MODEL} for method in ('DescribeModel', 'Generate', 'GenerateFromImages')},
}
for version in ('', '/versions/{version}'):
    BODIES.update({f'/v2/models/{{model}}{version}/{what}': {'inputs': []} for what in ('infer', 'infer_stream')})
for prefix in ('/openai/v1', '/openai', '/v3', '/openai/deployments/{deployment}', '/openai/deployments/{owner}/{deployment}'):
    BODIES.update({path.replace('/v1', prefix, 1): body for path, body in list(BODIES.items()) if path.startswith('/v1/') and '/messages' not in path})
# Paths that name no model, or whose protocol says it in the answer's body and not by its status (tested by themselves
# below).
NO_MODEL = {
    '/', '/docs', '/openapi.json', '/v2/docs', '/v2/docs/dataplane.json', '/favicon.ico', '/favicon.svg', '/livez', '/readyz', '/metrics', '/v2', '/v2/', '/v2/models',
    '/console/v1/requests', '/console/v1/live', '/console/v1/timelines',
    '/v2/models/stats', '/v2/repository/index', '/v2/repository/{repository}/index', '/v2/trace/setting', '/v2/logging',
    *(f'{prefix}/responses/{path}' for prefix in ('/v1', '/openai/v1', '/openai', '/v3') for path in ('{response}', '{response}/cancel', '{response}/input_items')),
    *(f'{prefix}/responses' for prefix in ('/v1', '/openai/v1', '/openai', '/v3')),  # GET: a WebSocket
    '/api/tags', '/api/ps', '/api/version', '/api/create', '/api/copy', '/api/push', '/api/delete',
    '/inference.GRPCInferenceService/ModelReady', '/inference.GRPCInferenceService/ModelStreamInfer',
    '/inference.GRPCInferenceService/RepositoryIndex', '/inference.GRPCInferenceService/ServerMetadata',
    '/inference.GRPCInferenceService/LogSettings', '/load', '/version', '/tokenizer_info',
    '/get_model_info', '/model_info', '/get_server_info', '/server_info', '/info', '/health_generate', '/flush_cache', '/props', '/slots', '/slots/{slot}', '/lora-adapters', '/evergreen/v2/session',
    '/evergreen.v2.EvergreenService/StartSession',
    *(f'/salience.v1.Salience/{m}' for m in ('CloseSession', 'ForkSession', 'DumpSession', 'Generate', 'GetReadoutManifest')),
}


def no_model(path):
    """Whole families beside NO_MODEL: shared memory, reflection, what GRPS says in its messages, lists, what is kept for later."""
    return path in NO_MODEL or 'sharedmemory' in path.lower() or '.reflection.' in path or path.startswith('/grps') \
        or 'grps.protos.v1.' in path or path.rstrip('/').endswith('/models') or path in ('/graphpipe',) \
        or path.startswith('/v2/jobs/') or '/files' in path or '/uploads' in path or '/batches' in path or '/conversations' in path or '/chat/completions' in path


def digest(secret):
    return 'sha256:' + hashlib.sha256(secret.encode()).hexdigest()


def key_file(keys):
    lines = ['keys:']
    for name, more in keys.items():
        lines.append(f'  - {{name: {name}, hash: "{digest("secret-" + name)}"{more}}}')
    if not keys:
        lines = ['keys: []']
    return '\n'.join(lines) + '\n'


def routes(*flags):
    done = subprocess.run([harness.WEIR, 'routes', '--json', *map(str, flags), harness.MODELS], stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def filled(pattern):
    return pattern.replace('{owner}/{deployment}', 'owner/none').replace('{model}', MODEL).replace('{deployment}', MODEL).replace('{version}', '1').replace('{repository}', 'models').replace('{region}', 'r')


def of_rpc(route):
    return bool(re.match(r'/[\w.]+\.\w+/\w+$', route['path']))


def is_rpc(route):
    return route['method'] == 'POST' and of_rpc(route)


class Keys(harness.Case):
    """A server with a key of every kind."""

    keys = {
        'all': ', roles: [infer, admin, metrics]',
        'infer': ', roles: [infer]', 'admin': ', roles: [admin]', 'metrics': ', roles: [metrics]',
        'none': ', roles: []',
        'other': ', roles: [infer, admin, metrics], models: ["nothing*"]',
        'expired': ', roles: [infer, admin, metrics], expires: 2020-01-01T00:00:00Z',
        'busy': ', roles: [infer, admin, metrics], limits: {requests_per_second: 0.0001}',
        'tenant_a': ', roles: [infer]', 'tenant_b': ', roles: [infer]',
        'tokens': ', roles: [infer], limits: {tokens_per_minute: 30}',
        'tensors': ', roles: [infer], limits: {tokens_per_minute: 30}',
        'narrow': ', roles: [infer], limits: {concurrent: 1}',
        'some': ', roles: [infer], models: ["simple*"]',
        'few': ', roles: [infer, metrics], models: ["simple*"]',
        'stream': ', roles: [infer], limits: {requests_per_second: 0.01}',
        'bytes': ', roles: [infer], limits: {bytes_per_minute: 100KiB}',
    }

    @classmethod
    def setUpClass(cls):
        cls.file = harness.scratch() / f'{cls.__name__}.yaml'
        cls.file.write_text(key_file(cls.keys))
        cls.serve = ('--auth-keys-file', cls.file, '--access-log', cls.file.with_suffix('.log'))
        super().setUpClass()

    def ask(self, method, path, key=None, body=None, headers=(), field='Authorization'):
        """One request over HTTP/1.1 as it is, without a client's normalization. `field`: where it shows the key."""
        connection = http.client.HTTPConnection('127.0.0.1', self.server.port, timeout=harness.PATIENCE)
        try:
            connection.putrequest(method, path, skip_accept_encoding=True)
            if key is not None:
                connection.putheader(field, ('Bearer ' if field == 'Authorization' else '') + f'secret-{key}')
            for name, value in headers:
                connection.putheader(name, value)
            if body is not None:
                connection.putheader('Content-Length', str(len(body)))
            connection.endheaders(body)
            answer = connection.getresponse()
            endless = path.endswith(('/Watch', '/console/v1/requests', '/console/v1/live'))
            said = b'' if endless and answer.status == 200 else answer.read()
            return harness.Answer(answer.status, {n.lower(): v for n, v in answer.getheaders()}, said)
        finally:
            connection.close()

    def rest(self, route, key):
        path = filled(route['path'])
        if route['method'] == 'GET' and of_rpc(route):  # Connect's form of a method that only reads
            message = urllib.parse.quote(json.dumps(BODIES.get(route['path'], {})))
            path += f'?connect=v1&encoding=json&message={message}'
        body = json.dumps(BODIES.get(route['path'], {})).encode() if route['method'] == 'POST' else None
        fields = [('Content-Type', 'application/json')] if body else []
        if route['protocol'] == 'console':
            fields += [('Origin', self.server.url()), ('X-Weir-Console', '1'), ('Accept-Encoding', 'gzip')]
        return self.ask(route['method'], path, key, body, fields)

    def check_form(self, route, wanted, answer):
        """The error in the protocol's own words."""
        place = f"{route['method']} {route['path']}: {answer.headers} {answer.body[:200]}"
        if wanted == UNKNOWN:
            self.assertEqual('Bearer', answer.headers.get('www-authenticate'), place)
        if wanted == LIMITED:
            self.assertGreater(int(answer.headers['retry-after']), 1, place)
        self.assertNotIn(b'secret-', answer.body, place)
        if route['protocol'] == 'graphpipe' and route['method'] == 'POST':
            return self.assertEqual('application/octet-stream', answer.headers['content-type'], place)
        said = json.loads(answer.body)
        if is_rpc(route):
            self.assertEqual(wanted[1], said['code'], place)
        elif of_rpc(route):
            self.assertEqual(CONNECT[wanted], said['code'], place)
        elif route['protocol'] in ('openai', 'sglang'):
            self.assertIn('message', said['error'], place)
            if wanted == UNKNOWN:
                self.assertEqual('invalid_api_key', said['error']['code'], place)
            if wanted == LIMITED:
                self.assertEqual('rate_limit_error', said['error']['type'], place)
        elif route['protocol'] == 'llama.cpp':
            self.assertEqual(answer.status, said['error']['code'], place)
            self.assertIn('message', said['error'], place)
        elif route['protocol'] == 'anthropic':
            self.assertEqual('error', said['type'], place)
            self.assertIn('message', said['error'], place)
            if wanted == UNKNOWN:
                self.assertEqual('authentication_error', said['error']['type'], place)
        elif route['path'].startswith('/grps/'):
            self.assertIn('status', said, place)
        else:
            self.assertIsInstance(said['error'], str, place)
            if route['protocol'] == 'tgi':
                self.assertEqual('overloaded' if wanted == LIMITED else 'unauthorized', said['error_type'], place)

    def grpc_web(self, route, key):
        """(grpc-status, headers)"""
        answer = self.ask('POST', route['path'], key, b'\0\0\0\0\0', [('Content-Type', 'application/grpc-web+proto')])
        trailers = answer.body[answer.body.rindex(b'grpc-status:'):] if b'grpc-status:' in answer.body else b''
        status = trailers.split(b':')[1].split(b'\r\n')[0].strip() if trailers else b'-1'
        return int(status), answer

    def grpc(self, path, key, message=b''):
        metadata = [('authorization', f'Bearer secret-{key}')] if key else []
        with grpc.insecure_channel(self.server.address) as channel:
            same = lambda x: x  # noqa: E731
            call = channel.stream_stream(path, same, same)(iter([message]), metadata=metadata, timeout=harness.PATIENCE)
            try:
                list(call)
                return grpc.StatusCode.OK, call
            except grpc.RpcError as error:
                return error.code(), call


# The three refusals, as HTTP status and gRPC status.
UNKNOWN, DENIED, LIMITED = (401, 16), (403, 7), (429, 8)
CONNECT = {UNKNOWN: 'unauthenticated', DENIED: 'permission_denied', LIMITED: 'resource_exhausted'}


class Matrix(Keys):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.all = [r for r in routes() if r['method'] in ('GET', 'POST')]

    @staticmethod
    def names_model(route):
        # Those that are stored; a WebSocket.
        listed = route['method'] == 'GET' and route['path'].endswith(('/chat/completions', '/responses'))
        return '{model}' in route['path'] and not no_model(route['path']) or route['path'] in BODIES and not listed

    def kinds(self, route):
        """(key, what it must be told) for every kind of key."""
        health = route['permission'] == 'health'
        yield None, None if health else UNKNOWN
        yield 'wrong', None if health else UNKNOWN
        yield 'expired', None if health else UNKNOWN
        yield 'none', None if health else DENIED
        for role in ('infer', 'admin', 'metrics'):
            if not health and role not in OPENS[route['permission']]:
                yield role, DENIED
        if not health and self.names_model(route) and route['protocol'] != 'graphpipe':
            yield 'other', DENIED
        yield 'busy', None if health else LIMITED

    def setUp(self):
        self.ask('GET', '/v2', 'busy')  # from here on it is over its limit

    def check(self, route, form, key, told, wanted, answer=None):
        place = f"{form} {route['method']} {route['path']} with key {key}: {answer.body[:200] if answer else ''}"
        if wanted is None:
            self.assertNotIn(told, UNKNOWN + DENIED + LIMITED, place)
        else:
            self.assertEqual(wanted[0] if form in ('rest', 'json') else wanted[1], told, place)

    def test_the_table_is_whole(self):
        self.assertGreater(len(self.all), 100)
        self.assertEqual(set(OPENS), {r['permission'] for r in self.all})
        for route in self.all:
            if route['permission'] in ('read', 'infer'):
                self.assertTrue(self.names_model(route) or no_model(route['path']), f"say in BODIES how {route['path']} names its model, or in NO_MODEL that it does not")

    def test_rest_and_json(self):
        for route in self.all:
            if route['path'] == '/':
                continue  # its page is for all, its links are for those who may read
            for key, wanted in self.kinds(route):
                answer = self.rest(route, key)
                self.check(route, 'json' if is_rpc(route) else 'rest', key, answer.status, wanted, answer)
                if wanted:
                    self.check_form(route, wanted, answer)

    def test_grpc(self):
        for route in filter(is_rpc, self.all):
            for key, wanted in self.kinds(route):
                if key == 'other' or wanted is None:
                    continue  # the message is empty
                code, call = self.grpc(route['path'], key)
                self.check(route, 'grpc', key, code.value[0], wanted)
                if wanted == LIMITED:
                    pushback = dict(call.trailing_metadata()).get('grpc-retry-pushback-ms')
                    self.assertGreater(int(pushback), 1000, route['path'])

    def test_grpc_web(self):
        for route in filter(is_rpc, self.all):
            for key, wanted in self.kinds(route):
                if key == 'other' or wanted is None:
                    continue
                told, answer = self.grpc_web(route, key)
                self.check(route, 'grpc-web', key, told, wanted, answer)

    def test_connect(self):
        for route in filter(is_rpc, self.all):
            for key, wanted in self.kinds(route):
                if key == 'other' or wanted is None:
                    continue
                answer = self.ask('POST', route['path'], key, b'{}', [('Content-Type', 'application/json'), ('Connect-Protocol-Version', '1')])
                self.check(route, 'json', key, answer.status, wanted, answer)
                self.assertIn(json.loads(answer.body)['code'], (CONNECT[wanted], wanted[1]), route)  # streams are plain JSON
                stream = self.ask('POST', route['path'], key, b'\0\0\0\0\0', [('Content-Type', 'application/connect+proto')])
                if stream.status == 200:  # the last message of a stream says it
                    self.assertIn(f'"{CONNECT[wanted]}"'.encode(), stream.body, route)
                else:
                    self.assertEqual(wanted[0], stream.status, route)

    def test_graphpipe_names_the_model(self):
        import graphpipe_test
        request = graphpipe_test.metadata_request()
        for path in ('/graphpipe/digits', '/graphpipe/digits/versions/1'):
            answer = self.ask('POST', path, 'other', request)
            self.assertEqual(403, self.ask('GET', path, 'other').status)
            self.assertIn(b'may not use model', answer.body)
            self.assertEqual(200, self.ask('POST', path, 'infer', request).status)

    def test_grpc_names_the_model(self):
        pb, rpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address) as channel:
            stub = rpc.GRPCInferenceServiceStub(channel)
            metadata = [('x-api-key', 'secret-other')]
            for call, request in ((stub.ModelInfer, pb.ModelInferRequest(model_name=MODEL)),
                                  (stub.ModelMetadata, pb.ModelMetadataRequest(name=MODEL)),
                                  (stub.ModelConfig, pb.ModelConfigRequest(name='no-such-model')),
                                  (stub.RepositoryModelUnload, pb.RepositoryModelUnloadRequest(model_name=MODEL))):
                with self.assertRaises(grpc.RpcError) as raised:
                    call(request, metadata=metadata)
                self.assertEqual(grpc.StatusCode.PERMISSION_DENIED, raised.exception.code(), request)
            self.assertFalse(stub.ModelReady(pb.ModelReadyRequest(name=MODEL), metadata=metadata).ready)

    def test_websocket(self):
        upgrade = [('Connection', 'Upgrade'), ('Upgrade', 'websocket'), ('Sec-WebSocket-Version', '13'),
                   ('Sec-WebSocket-Key', base64.b64encode(bytes(16)).decode())]
        paths = ('/evergreen/v2/session', '/v1/responses')
        for path in paths:
            for key, wanted in self.kinds(next(r for r in self.all if r['path'] == path and r['method'] == 'GET')):
                if wanted:
                    self.assertEqual(wanted[0], self.ask('GET', path, key, headers=upgrade).status, (path, key))
        offers = ('weir, weir.key.' + base64.urlsafe_b64encode(b'secret-infer').decode().rstrip('='), None)
        for path, offered in itertools.product(paths, offers):
            with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as connection:
                head = f'GET {path} HTTP/1.1\r\nHost: localhost\r\n' + ''.join(f'{n}: {v}\r\n' for n, v in upgrade)
                head += f'Sec-WebSocket-Protocol: {offered}\r\n' if offered else 'Authorization: Bearer secret-infer\r\n'
                connection.sendall(head.encode() + b'\r\n')
                answer = connection.recv(65536).decode()
                self.assertTrue(answer.startswith('HTTP/1.1 101'), answer)
                self.assertEqual(bool(offered), 'sec-websocket-protocol: weir\r\n' in answer.lower(), answer)

    def test_the_right_role_gets_in(self):
        for route in self.all:
            if route['permission'] in ('admin', 'health'):
                continue
            for role in OPENS[route['permission']]:
                answer = self.rest(route, role)
                self.assertNotIn(answer.status, (401, 403, 429), f'{role} {route}: {answer.body[:200]}')

    def test_admin(self):
        for path in ('/v2/repository/models/simple/unload', '/v2/repository/models/simple/load'):
            self.assertEqual(403, self.ask('POST', path, 'infer', b'').status)
            self.assertEqual(403, self.ask('POST', path, 'other', b'').status)
            self.assertEqual(400, self.ask('POST', path, 'admin', b'').status, 'models.control: none')
        self.assertEqual(200, self.ask('POST', '/grps/v1/health/online', 'admin', b'').status)

    def settings(self, method, key, body, *headers):
        return self.ask('POST', f'/inference.GRPCInferenceService/{method}', key, json.dumps(body).encode(),
                        [('Content-Type', 'application/json'), *headers]).status

    def test_settings_are_read_by_readers_and_changed_by_admins_in_one_method(self):
        changes = {'LogSettings': {'settings': {'log_verbose_level': {'uint32_param': 0}}},
                   'TraceSetting': {'settings': {'trace_rate': {'value': ['1000']}}}}
        for method, change in changes.items():
            self.assertEqual([200, 200, 403, 401], [self.settings(method, key, {}) for key in ('infer', 'admin', 'metrics', None)])
            self.assertEqual([403, 200, 403, 401], [self.settings(method, key, change) for key in ('infer', 'admin', 'metrics', None)])
            foreign = ('Origin', 'https://elsewhere.example'), ('Sec-Fetch-Site', 'cross-site')
            self.assertEqual(403, self.settings(method, 'admin', change, *foreign), 'a page of another site')
            path = f'/inference.GRPCInferenceService/{method}?connect=v1&encoding=json&message='
            self.assertEqual([200, 403], [self.ask('GET', path + urllib.parse.quote(json.dumps(m)), 'infer').status for m in ({}, change)])
        for method in changes:
            lines = self.server.logged('admin action', method, count=4)
            self.assertEqual(4, len(lines), 'of those with settings: two, a page, a GET')
            self.assertEqual([], [line for line in lines if 'who=metrics' in line or 'who=other' in line])

    def test_who_may_change_some_models_brings_no_configuration(self):
        """As an ensemble's steps it could name the others."""
        body = json.dumps({'parameters': {'config': '{}'}}).encode()
        for key, status, reason in (('other', 403, b'could name others'), ('all', 400, b'models.control')):
            answer = self.ask('POST', '/v2/repository/models/nothing/load', key, body)
            self.assertEqual(status, answer.status)
            self.assertIn(reason, answer.body)
        answer = self.ask('POST', '/inference.GRPCInferenceService/RepositoryModelLoad', 'other', json.dumps(
            {'modelName': 'nothing', 'parameters': {'config': {'stringParam': '{}'}}}).encode(), [('Content-Type', 'application/json')])
        self.assertIn(b'could name others', answer.body)

    def test_unknown_paths_and_methods_are_not_told_apart_without_a_key(self):
        for method, path in (('GET', '/nothing'), ('POST', '/v1/nothing'), ('DELETE', '/v2/models/chat'), ('GET', '/grps/v1/x'),
                             ('POST', '/no.such.Service/Method')):
            self.assertEqual(401, self.ask(method, path).status, path)
            self.assertIn(self.ask(method, path, 'all').status, (404, 405), path)
        self.assertEqual(grpc.StatusCode.UNAUTHENTICATED, self.grpc('/no.such.Service/Method', None)[0])
        self.assertEqual(grpc.StatusCode.UNIMPLEMENTED, self.grpc('/no.such.Service/Method', 'all')[0])


class Models(Keys):
    def names(self, path, key, pick):
        return set(pick(json.loads(self.ask('GET', path, key).body)))

    def test_lists_show_what_the_key_may_see(self):
        simple = {'simple', 'simple_dyna_sequence', 'simple_identity', 'simple_int8', 'simple_sequence', 'simple_string',
                  'simple_string_dyna_sequence'}
        self.assertEqual(simple, self.names('/v2/models', 'some', lambda j: j['models']))
        self.assertLess(simple, self.names('/v2/models', 'all', lambda j: j['models']))
        self.assertEqual(set(), self.names('/v1/models', 'some', lambda j: (m['id'] for m in j['data'])))
        self.assertEqual(simple, self.names('/graphpipe', 'some', lambda j: (m['name'] for m in j['models'])))
        index = json.loads(self.ask('POST', '/v2/repository/index', 'some', b'').body)
        self.assertEqual(simple, {m['name'] for m in index})
        metadata = self.ask('GET', '/grps/v1/metadata/server', 'some').body
        self.assertIn(b'simple_int8', metadata)
        self.assertNotIn(b'digits', metadata)
        stats = json.loads(self.ask('GET', '/v2/models/stats', 'some').body)
        self.assertEqual(simple, {m['name'] for m in stats['model_stats']})

    def test_numbers_show_what_the_key_may_see(self):
        one = b'{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1.5]}]}'
        self.assertEqual(200, self.ask('POST', '/v2/models/identity/infer', 'all', one).status)
        for path in ('/metrics', '/v2/models/stats', '/console/v1/timelines'):
            few, everything = self.ask('GET', path, 'few'), self.ask('GET', path, 'all')
            self.assertEqual((200, 200), (few.status, everything.status), path)
            self.assertEqual((True, False), (b'"identity"' in everything.body, b'"identity"' in few.body), path)
        self.assertTrue(b'model="simple_int8"' in self.ask('GET', '/metrics', 'few').body)
        asked = urllib.request.Request(self.server.url('/console/v1/live'), headers={'Authorization': 'Bearer secret-few'})
        with urllib.request.urlopen(asked, timeout=harness.PATIENCE) as stream:
            state = stream.readline() + stream.readline()
            while not state.startswith(b'event: state'):
                state = state.split(b'\n', 1)[1] + stream.readline()
        self.assertEqual((True, False), (b'"simple_int8"' in state, b'"identity"' in state))

    def test_a_name_that_there_is_not_is_refused_as_one_that_there_is(self):
        there, missing = (self.ask('GET', f'/v2/models/{name}', 'some') for name in ('digits', 'digitz'))
        self.assertEqual((403, 403), (there.status, missing.status))
        self.assertEqual(there.body.replace(b'digits', b'digitz'), missing.body)
        self.assertEqual(404, self.ask('GET', '/v2/models/simple_nothing', 'some').status)
        self.assertNotIn(b"'digits'", self.ask('GET', '/v2/models/simple-digit', 'some').body)

    def test_health_lists_no_models_to_strangers(self):
        health = json.loads(self.ask('POST', '/grpc.health.v1.Health/List', None, b'{}', [('Content-Type', 'application/json')]).body)
        self.assertFalse([n for n in health['statuses'] if n.startswith('model:')])
        health = json.loads(self.ask('POST', '/grpc.health.v1.Health/List', 'some', b'{}', [('Content-Type', 'application/json')]).body)
        self.assertIn('model:simple', health['statuses'])
        self.assertNotIn('model:digits', health['statuses'])

    def test_evergreen_and_grps_refuse_the_model(self):
        body = json.dumps({'actions': [{'name': 'LIST_ACTIONS', 'outputs': [{'name': 'actions', 'id': 'a'}],
                                        'target_spec': {'id': 'models/chat'}}]}).encode()
        answer = self.ask('POST', '/evergreen/v2/session', 'some', body)
        self.assertIn(b'PERMISSION_DENIED', answer.body)
        body = json.dumps({'str_data': 'hi', 'model': 'chat'}).encode()
        answer = self.ask('POST', '/grps/v1/infer/predict?model=chat', 'some', body, [('Content-Type', 'application/json')])
        self.assertIn(b'may not use model', answer.body)


class Tenants(Keys):
    def salience(self, method, body, key):
        return self.ask('POST', f'/salience.v1.Salience/{method}', key, json.dumps(body).encode(), [('Content-Type', 'application/json')])

    def test_sessions_of_one_tenant_are_not_there_for_another(self):
        session = json.loads(self.salience('OpenSession', {'model': 'chat'}, 'tenant_a').body)['session_id']
        self.assertEqual(200, self.salience('DumpSession', {'session_id': session}, 'tenant_a').status)
        self.assertEqual(404, self.salience('DumpSession', {'session_id': session}, 'tenant_b').status)
        self.assertEqual(404, self.salience('ForkSession', {'session_id': session}, 'tenant_b').status)
        self.salience('CloseSession', {'session_id': session}, 'tenant_b')
        self.assertEqual(200, self.salience('DumpSession', {'session_id': session}, 'tenant_a').status)

    def test_prefixes_of_one_tenant_are_no_cache_for_another(self):
        body = json.dumps({'model': 'chat', 'prompt': 'once upon a time there was a tenant that had a long prompt ' * 3,
                           'max_tokens': 1}).encode()

        def cached(key):
            answer = json.loads(self.ask('POST', '/v1/completions', key, body).body)
            return answer['usage'].get('prompt_tokens_details', {}).get('cached_tokens', 0)
        self.assertEqual(0, cached('tenant_a'))
        self.assertGreater(cached('tenant_a'), 0)
        self.assertEqual(0, cached('tenant_b'))


# Requests of every API of the OpenAI room that spend a model's time, each of which is answered with 200.
ANSWERED = {
    '/v1/chat/completions': {**CHAT, 'max_tokens': 1}, '/chat/completions': {**CHAT, 'max_tokens': 1}, '/v1/completions': {**BODIES['/v1/completions'], 'max_tokens': 1},
    '/v1/responses': {'model': MODEL, 'input': 'a', 'max_output_tokens': 16}, '/v1/embeddings': BODIES['/v1/embeddings'],
    f'/openai/deployments/{MODEL}/chat/completions': {**CHAT, 'max_tokens': 1}, f'/openai/deployments/{MODEL}/embeddings': {'input': 'a'},
    '/v1/messages': BODIES['/v1/messages'], '/v1/messages/count_tokens': CHAT, '/tokenize': BODIES['/tokenize'], '/detokenize': BODIES['/detokenize'],
    '/generate': {'model': MODEL, 'text': 'a', 'sampling_params': {'max_new_tokens': 1}}, '/invocations': {'model': MODEL, 'inputs': 'a', 'parameters': {'max_new_tokens': 1}},
    **{path: {'model': MODEL, 'inputs': 'a', 'parameters': {'max_new_tokens': 1}} for path in ('/', '/generate_stream')}, '/completion': {'model': MODEL, 'prompt': 'a', 'n_predict': 1},
    '/apply-template': CHAT, '/embedding': BODIES['/embedding'], '/embed': BODIES['/embed'],
    '/api/chat': {**CHAT, 'stream': False, 'options': {'num_predict': 1}}, '/api/generate': {'model': MODEL, 'prompt': 'a', 'stream': False, 'options': {'num_predict': 1}},
    '/api/embed': BODIES['/api/embed'],
}
FIELDS = 'Authorization', 'api-key', 'x-api-key'  # as clients of OpenAI's, Azure's and Anthropic's APIs send a key


class OpenaiKeys(Keys):
    """A key of openai.api_keys, at every route of that room and at those of the others."""

    @classmethod
    def setUpClass(cls):
        cls.serve = ('--openai-api-keys', 'secret-own')
        super(Keys, cls).setUpClass()
        known = lambda route: (route['method'], route['path'], route['protocol'])  # noqa: E731
        others = set(map(known, routes('--protocols-openai=false')))
        cls.all = [route for route in routes() if route['method'] in ('GET', 'POST', 'DELETE') and not of_rpc(route)]
        cls.room = [route for route in cls.all if known(route) not in others]

    def asked(self, route, key, field='Authorization'):
        body = b'{}' if route['method'] == 'POST' else None
        return self.ask(route['method'], filled(route['path']), key, body, [('Content-Type', 'application/json')] if body else [], field)

    def test_the_room_has_all_of_its_protocols(self):
        self.assertEqual({'openai', 'ollama', 'anthropic', 'sglang', 'tgi', 'llama.cpp'}, {route['protocol'] for route in self.room})

    def test_each_route_needs_a_key_and_says_so_in_its_own_form(self):
        for route in self.room:
            for key in (None, 'wrong'):
                answer = self.asked(route, key)
                place = f"{route['method']} {route['path']} with key {key}"
                if route['permission'] == 'health':
                    self.assertNotEqual(401, answer.status, place)
                    continue
                self.assertEqual(401, answer.status, place)
                self.check_form(route, UNKNOWN, answer)

    def test_each_route_takes_the_key_as_its_clients_send_it(self):
        for route in self.room:
            for field in FIELDS:
                status = self.asked(route, 'own', field).status
                place = f"{route['method']} {route['path']} with {field}"
                if route['permission'] == 'admin':
                    self.assertEqual(403, status, place)
                else:
                    self.assertNotIn(status, (401, 403, 429, 500), place)

    def test_what_spends_a_models_time_is_answered(self):
        for path, body in ANSWERED.items():
            for field in FIELDS:
                answer = self.ask('POST', path, 'own', json.dumps(body).encode(), [('Content-Type', 'application/json')], field)
                self.assertEqual(200, answer.status, f'{path} with {field}: {answer.body[:300]}')

    def test_no_other_room_takes_it(self):
        for route in self.all:
            if route in self.room or route['permission'] == 'health' or route['path'] == '/':
                continue
            answer = self.asked(route, 'own')
            self.assertEqual(403, answer.status, f"{route['method']} {route['path']}: {answer.body[:200]}")


class Limits(Keys):
    def chat(self, key, tokens=4):
        body = json.dumps({**CHAT, 'max_tokens': tokens}).encode()
        return self.ask('POST', '/v1/chat/completions', key, body)

    def test_tokens_of_prompts_and_answers_are_counted(self):
        statuses = [self.chat('tokens', 16).status for _ in range(8)]
        self.assertEqual(200, statuses[0])
        self.assertEqual(429, statuses[-1])
        refused = self.chat('tokens')
        self.assertIn(b'tokens_per_minute', refused.body)
        self.assertGreaterEqual(int(refused.headers['retry-after']), 1)

    def test_tokens_are_counted_where_a_model_of_text_is_asked_by_tensors(self):
        body = json.dumps({'inputs': [{'name': 'text_input', 'datatype': 'BYTES', 'shape': [1], 'data': ['hi']}],
                           'parameters': {'max_tokens': 16, 'ignore_eos': True}}).encode()
        statuses = [self.ask('POST', '/v2/models/chat/infer', 'tensors', body).status for _ in range(4)]
        self.assertEqual([200, 429], [statuses[0], statuses[-1]], statuses)

    def test_a_place_is_given_back(self):
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as held:
            held.sendall(b'POST /v2/models/simple/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-narrow\r\n'
                         b'Content-Length: 2\r\nExpect: 100-continue\r\n\r\n')
            self.assertIn(b'100 Continue', held.recv(1024))  # it has been let in
            refused = self.ask('GET', '/v2', 'narrow')
            self.assertEqual(429, refused.status)
            self.assertIn(b'concurrent', refused.body)
            held.sendall(b'{}')
            self.assertIn(b'HTTP/1.1 400', held.recv(65536))
        end = time.monotonic() + harness.PATIENCE  # the answer is out before its request is over
        while (status := self.ask('GET', '/v2', 'narrow').status) == 429 and time.monotonic() < end:
            pass
        self.assertEqual(200, status)

    def test_bytes_of_a_request_count_before_it_has_ended(self):
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as upload:
            upload.sendall(b'POST /v2/models/simple/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer secret-bytes\r\n'
                           b'Content-Length: 10000000\r\n\r\n' + b' ' * (300 << 10))
            end = time.monotonic() + harness.PATIENCE
            while (refused := self.ask('GET', '/v2', 'bytes')).status != 429:
                self.assertLess(time.monotonic(), end)
            self.assertIn(b'bytes_per_minute', refused.body)

    def test_messages_of_a_stream_are_requests(self):
        pb, rpc = harness.stubs()('inference')
        with grpc.insecure_channel(self.server.address) as channel:
            requests = [pb.ModelInferRequest(model_name='nothing') for _ in range(3)]
            answers = list(rpc.GRPCInferenceServiceStub(channel).ModelStreamInfer(
                iter(requests), metadata=[('api-key', 'secret-stream')]))
        self.assertEqual(3, len(answers))
        self.assertNotIn('requests_per_second', answers[0].error_message)
        for answer in answers[1:]:
            self.assertIn('requests_per_second', answer.error_message)


class Logs(Keys):
    def lines(self, path):
        """The lines of the access log about that path's route, once the last one is there."""
        log = self.file.with_suffix('.log')
        end = time.monotonic() + harness.PATIENCE
        while True:
            found = [json.loads(line) for line in log.read_text().splitlines()]
            found = [line for line in found if line.get('route') == path]
            if len(found) >= 5 or time.monotonic() > end:
                return found

    def test_the_name_of_the_key_is_in_the_access_log_and_the_key_is_not(self):
        path = '/v2/repository/index'
        for key in ('infer', 'metrics', 'expired', 'wrong', None):
            self.ask('POST', path, key, b'')
        found = [(line.get('who'), line['status']) for line in self.lines(path)]
        # Each shard writes its own lines: their order is not that of the requests.
        self.assertCountEqual([('infer', 200), (None, 403), (None, 401), (None, 401), (None, 401)], found)
        self.assertNotIn('secret-', self.file.with_suffix('.log').read_text())


    def test_an_expired_key_is_named_in_the_log_and_to_its_holder(self):
        answer = self.ask('GET', '/v2/models/simple', 'expired')
        self.assertEqual(401, answer.status)
        self.assertIn("the key 'expired' has expired", answer.json()['error'])
        self.assertNotIn('expired', self.ask('GET', '/v2/models/simple', 'wrong').json()['error'])
        end = time.monotonic() + harness.PATIENCE
        while 'keys that have expired were refused' not in self.server.output():
            self.assertLess(time.monotonic(), end)
        self.assertRegex(self.server.output(), r'keys that have expired were refused.*latest_key\W+expired')
        self.assertNotIn('secret-', self.server.output())


class Reload(Keys):
    def wait(self, key, status):
        end = time.monotonic() + harness.PATIENCE
        while self.ask('GET', '/v2', key).status != status:
            self.assertLess(time.monotonic(), end, f'key {key} is never {status}')
            time.sleep(0.05)

    def replace(self, text):
        new = self.file.with_suffix('.new')
        new.write_text(text)
        os.replace(new, self.file)

    def test_a_file_that_changes_is_read_again(self):
        self.assertEqual(401, self.ask('GET', '/v2', 'fresh').status)
        self.replace(key_file({**self.keys, 'fresh': ''}))
        self.wait('fresh', 200)
        self.replace(key_file(self.keys))
        self.server.process.send_signal(signal.SIGHUP)
        self.wait('fresh', 401)

    def test_a_file_with_a_mistake_changes_nothing(self):
        self.replace('keys:\n  - {nam: x}\n')
        self.server.process.send_signal(signal.SIGHUP)
        end = time.monotonic() + harness.PATIENCE
        while 'the keys stay as they are' not in self.server.output():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.05)
        self.assertRegex(self.server.output(), r'Reload\.yaml:2:6: unknown key')
        self.assertEqual(200, self.ask('GET', '/v2', 'infer').status)
        self.replace(key_file(self.keys))
        self.server.process.send_signal(signal.SIGHUP)


class Attacks(Keys):
    def test_paths_that_are_written_in_other_ways_open_nothing(self):
        for path in ('/%76%32', '/v2/%6dodels', '//v2', '/v2//models', '/v2/./models', '/v2/x/../models', '/V2/models',
                     '/v2/models;a=b', '/v2/models;..', '/livez/../v2/models', '/livez%2f..%2fv2/models', '/v2/health/..;/models',
                     '/v2/health/live/..%2f..%2fmodels', '/v2/models%00', '/livez/', '/livez%2f', '/health/../v1/models',
                     'http://localhost/v2/models', '/livez?/../v2/models', '/v2/models/chat%2fready', '/metrics/', '/%6detrics'):
            with self.subTest(path):
                answer = self.ask('GET', path)
                self.assertTrue(answer.status in (400, 401) or b'alive' in answer.body, answer.body[:200])
        for path in ('/v2/repository/models/simple/%75nload', '/v2/repository/models/%2e%2e/unload', '//v2/repository/models/simple/unload'):
            self.assertEqual(401, self.ask('POST', path, None, b'').status, path)
            self.assertNotEqual(200, self.ask('POST', path, 'infer', b'').status, path)

    def test_a_trailer_is_no_key(self):
        body = b'2\r\n{}\r\n0\r\nAuthorization: Bearer secret-all\r\nx-api-key: secret-all\r\n\r\n'
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as connection:
            connection.sendall(b'POST /v2/models/simple/infer HTTP/1.1\r\nHost: localhost\r\nTrailer: Authorization\r\n'
                               b'Transfer-Encoding: chunked\r\n\r\n' + body)
            self.assertIn(b' 401 ', connection.recv(65536).split(b'\r\n')[0])

    def test_two_fields_are_refused(self):
        for headers in ([('Authorization', 'Bearer secret-all'), ('Authorization', 'Bearer secret-all')],
                        [('Authorization', 'Bearer wrong'), ('X-Api-Key', 'secret-all')],
                        [('X-Api-Key', 'secret-all'), ('Api-Key', 'secret-infer')],
                        [('Authorization', 'Bearer secret-all, Bearer secret-all')],
                        [('Authorization', 'secret-all')], [('Authorization', 'Basic secret-all')],
                        [('Authorization', 'Bearer Bearer secret-all')], [('Cookie', 'authorization=Bearer secret-all')]):
            with self.subTest(headers):
                self.assertEqual(401, self.ask('GET', '/v2', None, None, headers).status)
        for headers in ([('AUTHORIZATION', 'bearer secret-all')], [('x-api-key', 'secret-all')], [('api-key', ' secret-all ')]):
            self.assertEqual(200, self.ask('GET', '/v2', None, None, headers).status, headers)

    def test_a_query_is_no_key(self):
        for query in ('key=secret-all', 'api_key=secret-all', 'access_token=secret-all', 'authorization=Bearer%20secret-all'):
            self.assertEqual(401, self.ask('GET', f'/v2?{query}').status, query)

    def test_an_endless_key_is_refused(self):
        for size in (15 << 10, 1 << 20):
            with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as connection:
                try:
                    connection.sendall(b'GET /v2 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ' + b'a' * size + b'\r\n\r\n')
                    status = connection.recv(65536).split(b' ')[1]
                except (ConnectionError, IndexError):
                    status = b'431'  # closed while it was sent
                self.assertIn(status, (b'401', b'431'))
        self.assertEqual(200, self.ask('GET', '/v2', 'all').status)

    def test_many_wrong_keys_cost_little(self):
        many, pipelined = (20_000 if harness.SANITIZED else 100_000), 100
        self.ask('GET', '/v2', 'all')
        before = self.server.rss()
        with socket.create_connection(('127.0.0.1', self.server.port), timeout=harness.PATIENCE) as connection:
            answers = connection.makefile('rb')
            for batch in range(0, many, pipelined):
                connection.sendall(b''.join(b'GET /v2 HTTP/1.1\r\nHost: localhost\r\nx-api-key: wrong%d\r\n\r\n' % (batch + i)
                                            for i in range(pipelined)))
                for _ in range(pipelined):
                    self.assertIn(b' 401 ', answers.readline())
                    length = 0
                    while (line := answers.readline()) != b'\r\n':
                        if line.lower().startswith(b'content-length:'):
                            length = int(line.split(b':')[1])
                    answers.read(length)
        self.assertLess(self.server.rss() - before, (100 if harness.SANITIZED else 16) << 20)  # freed blocks in quarantine
        lines = self.server.logged('keys that are not known')
        self.assertTrue(1 <= len(lines) <= 30, len(lines))
        self.assertEqual(200, self.ask('GET', '/v2', 'all').status)

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        said = cls.server.output() + cls.file.with_suffix('.log').read_text()
        assert 'secret-' not in said and 'wrong42' not in said, 'keys are in the logs'


class Settings(unittest.TestCase):
    def serve(self, *flags, listen=('127.0.0.1:0',), models=harness.MODELS / 'simple', **more):
        server = harness.Server(*flags, listen=listen, repository=harness.MODELS, **more)
        self.addCleanup(server.stop)
        return server

    def get(self, server, path, *args):
        return harness.curl(server.url(path), *args).status

    def post(self, server, path, *args):
        return harness.curl(server.url(path), '-X', 'POST', *args).status

    def test_without_keys_everything_is_open_on_loopback(self):
        server = self.serve()
        self.assertEqual(200, self.get(server, '/v2', '-H', 'Authorization: Bearer whatever'))
        self.assertEqual(200, self.get(server, '/grps/v1/health/online'))
        warnings = [line for line in server.output().splitlines() if ' warning ' in line and 'turn of the loop' not in line]
        self.assertEqual([], warnings)

    def test_beyond_loopback_the_server_warns_and_refuses_admin_methods(self):
        server = self.serve(listen=('127.0.0.1:0', '0.0.0.0:0'))
        said = server.output()
        self.assertIn('warning: whoever reaches 0.0.0.0:0 may see and run models, read metrics without a key', said)
        self.assertIn('auth.admin', said)
        self.assertEqual(200, self.get(server, '/v2'))
        for path in ('/v2/repository/models/simple/load', '/v2/logging', '/grps/v1/health/offline'):
            self.assertEqual(403, self.post(server, path), path)
        self.assertEqual(403, self.get(server, '/grps/v1/health/offline'))

    def test_admin_may_be_opened(self):
        server = self.serve('--auth-admin', 'open', listen=('127.0.0.1:0', '0.0.0.0:0'))
        self.assertIn('load and unload models', server.output())
        self.assertEqual(200, self.get(server, '/grps/v1/health/online'))

    def test_anonymous_clients_may_do_what_the_setting_says(self):
        keys = harness.scratch() / 'settings.yaml'
        keys.write_text(key_file({'a': ''}))
        server = self.serve('--auth-keys-file', keys, '--auth-anonymous', 'health', '--auth-anonymous', 'metrics')
        self.assertEqual([200, 200, 401], [self.get(server, p) for p in ('/livez', '/metrics', '/v2')])
        closed = self.serve('--auth-keys-file', keys, '--auth-anonymous', 'none')
        self.assertEqual([401, 401, 401], [self.get(closed, p) for p in ('/livez', '/metrics', '/v2')])

    def test_keys_of_one_protocol_open_its_routes_alone_and_close_the_others(self):
        server = self.serve('--openai-api-keys', 'sk-one', '--salience-bearer-token', 'tok')
        one, tok = ('-H', 'Authorization: Bearer sk-one'), ('-H', 'Authorization: Bearer tok')
        self.assertEqual([200, 401, 403], [self.get(server, '/v1/models', *a) for a in (one, (), tok)])
        self.assertEqual([403, 401, 403], [self.get(server, '/v2/models', *a) for a in (one, (), tok)])
        self.assertEqual(401, self.post(server, '/v2/models/chat/generate', '-d', '{"text_input": "a"}'))
        manifest = '/salience.v1.Salience/GetReadoutManifest', '-H', 'Content-Type: application/json', '-d', '{}'
        self.assertEqual([200, 401, 403], [self.post(server, *manifest, *a) for a in (tok, (), one)])
        self.assertEqual(200, self.get(server, '/livez'))

    def test_a_bad_file_of_keys_stops_the_start(self):
        bad = harness.scratch() / 'bad.yaml'
        bad.write_text('keys:\n  - {name: a, hash: secret-in-clear}\n')
        for command in ('serve', 'check'):
            done = subprocess.run([harness.WEIR, command, '--auth-keys-file', bad, harness.MODELS], stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=harness.PATIENCE)
            self.assertEqual(2, done.returncode, command)
            self.assertIn(b'bad.yaml:2:', done.stdout)
            self.assertNotIn(b'secret-in-clear', done.stdout)


if __name__ == '__main__':
    harness.main()
