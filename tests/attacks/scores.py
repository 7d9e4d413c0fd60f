"""Items by the thousand for /generative_scoring, and texts of everything for /pooling."""

import json
import random

from decoupled import closing
from embeddings import MOST, encoders, no_torch, texts
from generate import keep_open
from peer import JSON, post
from registry import attack

SMALL = (('WEIR_LIMITS_SLAB_BUDGET', '256MiB'),)  # the quick form's


def request(path, body):
    return closing(post(path, json.dumps(body, ensure_ascii=False).encode(), JSON))


def scoring(size):
    """Bodies of /generative_scoring of so many bytes of text at most, by what is large in them."""
    items, labels = ['curl '] * MOST, list(range(5, 9))
    ids = size // MOST // 4  # of three bytes each, with the comma
    kinds = [{'items': items, 'label_token_ids': labels}, {'items': items, 'label_token_ids': labels[:1], 'apply_softmax': False},
             {'items': items, 'label_token_ids': labels, 'item_first': True, 'query': 'What is curl? ' * 100},
             {'items': [[20 + at % 50] * ids for at in range(MOST)], 'label_token_ids': labels, 'query': [5, 6, 7]},
             {'items': [[at] * ids for at in range(100)] * 20, 'label_token_ids': labels, 'query': [5] * 900, 'item_first': True},
             {'items': ['x' * (size // MOST)] * MOST, 'label_token_ids': labels}, {'items': [''] * MOST, 'label_token_ids': labels, 'query': ''},
             {'items': ['\U0001f600' * (size // 4)], 'label_token_ids': labels}, {'items': ['x'], 'label_token_ids': labels, 'query': ' ' * size},
             {'items': items * 2, 'label_token_ids': labels}, {'items': items, 'label_token_ids': list(range(64))},
             {'items': items[:128], 'label_token_ids': list(range(64))}, {'items': items, 'label_token_ids': labels * 100_000},
             {'items': items, 'label_token_ids': [1 << 31]}, {'items': [[2**32 - 1] * 100] * MOST, 'label_token_ids': labels},
             {'items': [[]] * MOST, 'label_token_ids': labels}, {'items': items, 'label_token_ids': labels, 'priority': 2**32 - 1}]
    return [{'model': 'chat', 'query': 'Is it?', **kind} for kind in kinds]


@attack(seconds=30, quick=8, quick_env=SMALL, probes=('tokens',))
def generative_scores_of_everything(target):
    """/generative_scoring of 2,048 items and 8,192 labels, of texts and ids of megabytes, none of them cached; read, not read, or left in the middle."""
    kinds = scoring(target.size(3_800_000, 1_000_000))

    def make(chance):
        return request('/generative_scoring', {**chance.choice(kinds), 'cache_salt': str(chance.random())})

    return keep_open(target, target.size(40, 16), make)


def pooled(chance, size):
    """What is posted to /pooling, of an encoder or of a model that makes tokens."""
    count = chance.choice((1, 20, MOST, MOST + 1, 50_000))
    some = texts(chance, count, min(size // 4 // count, chance.choice((0, 1, 100, size))))
    messages = [{'role': 'user', 'content': text} for text in some[:2000]]
    more = {'truncate_prompt_tokens': chance.choice((-1, 7))} if chance.random() < 0.5 else {}
    return {'model': chance.choice(('enc', 'enc', 'chat')), **more, **chance.choice((
        {'input': some}, {'input': some, 'task': 'embed', 'use_activation': True}, {'input': some, 'encoding_format': 'base64'},
        {'input': [[5] * min(300, size)] * min(count, 4000)}, {'input': [5] * (size // 4)}, {'messages': messages}, {'input': some, 'dimensions': 1 << 40},
        {'input': some, 'task': chance.choice(('classify', 'token_embed', 'plugin', 7, None, some))}))}


@attack(seconds=30, quick=8, quick_env=SMALL, repository=encoders, lacks=no_torch, probes=('tokens',))
def pooling_of_everything(target):
    """/pooling of 2,048 texts and of 50,000, of texts and ids of megabytes, of conversations, in all forms and tasks; read, not read, or left in the middle."""
    chance, size = random.Random(132), target.size(3_800_000, 1_000_000)
    made = [request('/pooling', pooled(chance, size)) for _ in range(target.size(100, 40))]
    return keep_open(target, target.size(200, 60), lambda chance: chance.choice(made))
