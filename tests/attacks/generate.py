"""SGLang's and TGI's own routes: streams whose events have all of an answer, lists of prompts, details of every token."""

import json
import random
import time

from decoupled import closing, leave
from peer import GZIP, JSON, Raw, more_descriptors, packed, post
from registry import attack
from text import flood

SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's
LONG = 'What is curl? ' * 60


def sglang(text, stream=False, sampling=None, **fields):
    sampling = {'max_new_tokens': 1500, 'ignore_eos': True, 'temperature': 0.8, **(sampling or {})}
    return '/generate', {'model': 'chat', 'text': text, 'stream': stream, 'sampling_params': sampling, **fields}


def tgi(path, text, **parameters):
    return path, {'model': 'chat', 'inputs': text, 'parameters': {'max_new_tokens': 500, **parameters}}


def request(asked):
    path, body = asked
    text = json.dumps(body).encode()
    return closing(post(path, text, JSON) if len(text) < 4096 else post(path, packed(text), JSON, GZIP))


def keep_open(target, most, make, receive_buffer=4096):
    """Keeps so many requests open: a quarter of them is read as fast as it goes, some slowly, the others not at all; some are left."""
    more_descriptors()
    chance, peers, begun, read, statuses = random.Random(73), [], 0, 0, {}
    while not target.over():
        for peer in [peer for peer in peers if not peer.still_open()]:
            peers.remove(peer)
            peer.sock.close()
        for _ in range(min(20, most - len(peers))):
            fast = chance.random() < 0.25
            peer = Raw(target, receive_buffer=1 << 20 if fast else receive_buffer, wait=3).send(make(chance))
            peer.rate, peer.begins = 1 << 20 if fast else chance.choice((0, 0, 2000)), None
            peers.append(peer)
            begun += 1
        for peer in peers:
            got = peer.take(peer.rate) if peer.rate else None
            if got and peer.begins is None:
                peer.begins = got[9:12].decode()
                statuses[peer.begins] = statuses.get(peer.begins, 0) + 1
            read += len(got or b'')
        for peer in [peer for peer in peers if chance.random() < 0.001]:
            leave(peer, chance.choice(('reset', 'end')))
            peers.remove(peer)
        time.sleep(0.02)
    for peer in peers:
        leave(peer, 'reset')
    if bad := set(statuses) - {'200', '400', '413', '422', '429', '503', '504'}:
        target.broke(f'statuses {bad}')
    return f'{begun} begun, {read >> 20} MiB read, {len(peers)} at the end, {statuses}'


@attack(seconds=30, quick=7, quick_env=SMALL, probes=('tokens',))
def generate_streams(target):
    """SGLang's streams, of which each event has all of an answer, with 20 log-probabilities per token, n = 128; TGI's; read, not read, or left."""
    kinds = [sglang('Tell me all.', True, return_logprob=True, top_logprobs_num=20, return_text_in_logprobs=True),
             sglang('Tell me all.', True, {'n': 128, 'max_new_tokens': 100}, return_logprob=True, top_logprobs_num=20),
             sglang([f'Tell me {i}.' for i in range(128)], True, {'max_new_tokens': 100}), sglang('Tell me all.', True, {'n': 16}, return_logprob=True),
             tgi('/generate_stream', 'Tell me all.', details=True, top_n_tokens=5), tgi('/generate_stream', LONG, details=True)]
    requests = [request(kind) for kind in kinds]
    return keep_open(target, target.size(24, 12), lambda chance: chance.choice(requests))


@attack(seconds=30, quick=8, quick_env=SMALL, probes=('tokens',))
def generate_lists(target):
    """128 prompts of 200 tokens in a request, 20 log-probabilities of each token of each prompt; TGI's best of 20; read, not read, or left."""
    prompts = [f'{i} {LONG}' for i in range(128)]
    alike = {'return_logprob': True, 'top_logprobs_num': 20, 'logprob_start_len': 0, 'return_text_in_logprobs': True}
    kinds = [sglang(prompts, False, {'max_new_tokens': 1}, **alike), sglang([LONG] * 128, False, {'max_new_tokens': 1}, **alike),
             sglang('x', False, {'n': 128, 'max_new_tokens': 100}, return_logprob=True, top_logprobs_num=20),
             sglang(prompts[:16], False, {'n': 8, 'max_new_tokens': 100}, **alike),
             tgi('/invocations', LONG, best_of=20, do_sample=True, details=True, decoder_input_details=True, top_n_tokens=5),
             tgi('/generate', LONG, details=True, decoder_input_details=True, top_n_tokens=5)]
    requests = [request(kind) for kind in kinds]
    return keep_open(target, target.size(8, 4), lambda chance: chance.choice(requests))


def hostile(count):
    """Requests that are too much, or nothing that a client would send."""
    numbers, long = list(range(count)), 'x' * count
    stops = {'stop': [f's{i}' for i in numbers]}, {'stop': long}, {'stop': ['ab' * 32] * 64}, {'stop_token_ids': numbers}
    samplings = [*stops, {'logit_bias': {str(i): 1 for i in numbers}}, {'n': 1 << 62}, {'n': 128, 'max_new_tokens': 1}, {long: 1},
                 {f'member{i}': {'a': [i]} for i in numbers}, {'custom_params': [[i] for i in numbers]}, {'regex': '(a|b)*a(a|b){60}'},
                 {'ebnf': 'root ::= ' + 'a ' * count}, {'json_schema': json.dumps({'enum': numbers})}, {'stop_regex': long},
                 {'max_new_tokens': 1 << 63, 'min_new_tokens': (1 << 32) - 1}, {'temperature': 1e308, 'top_k': -(1 << 62), 'top_p': -0.0}]
    kinds = [sglang('x', chance, {'max_new_tokens': 5, **sampling}) for sampling in samplings for chance in (False, True)]
    kinds += [sglang(text, False, {'max_new_tokens': 1}) for text in ([''] * count, [], [[]], [long] * 2, {'a': long}, None, [None] * 3, [long, [1]])]
    kinds += [('/generate', {'model': 'chat', 'input_ids': ids}) for ids in (numbers, [numbers] * 3, [[i] for i in numbers], [1 << 32] * 9, [-1], [[[1]]])]
    kinds += [sglang('x', True, {'max_new_tokens': 5}, **fields) for fields in (
        {'rid': [long] * 3}, {'rid': long}, {'top_logprobs_num': 1 << 31, 'return_logprob': True}, {'return_logprob': [True] * count},
        {'logprob_start_len': -2, 'return_logprob': True}, {'logprob_start_len': 1 << 40, 'return_logprob': True}, {'extra_key': long},
        {'session_params': {'id': long}}, {'image_data': [long]}, {'lora_path': long}, {f'field{i}': i for i in numbers}, {'inputs': 'x'})]
    kinds += [tgi(path, text, max_new_tokens=5, **parameters) for path in ('/generate', '/generate_stream', '/invocations') for text, parameters in (
        ('x', {'stop': [f's{i}' for i in numbers]}), ('x', {'best_of': 1 << 31}), ('x', {'grammar': {'type': 'regex', 'value': '(a|b)*a(a|b){50}'}}),
        ('x', {'grammar': {'type': 'json', 'value': {'enum': numbers}}}), ('x', {'truncate': 0}), (long, {'truncate': 1}), (numbers, {}), ('', {}),
        ('x', {'top_n_tokens': 1 << 31, 'details': True}), ('x', {'seed': -(1 << 70)}), ('x', {'watermark': [long]}), ('x', {'adapter_id': long}))]
    return [request(kind) for kind in kinds]


@attack(seconds=20, quick=6, probes=('tokens',))
def generate_parameters(target):
    """Their requests with parameters that are too large, of another type, or of nobody; lists of a hundred thousand texts, ids, stops, biases."""
    return flood(target, hostile(target.size(100_000, 20_000)), 4)
