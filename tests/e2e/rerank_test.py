"""Rerankers and classifiers: the reference's scores over rerank, score and classify, and Cohere's own client."""

import importlib.util
import json
import os
import subprocess
import sys
import time
import unittest
import urllib.error
import urllib.request

import numpy as np

import harness

sys.path.insert(0, str(harness.ROOT / 'tests/reference'))
try:
    import bert
    import safetensors
    import torch
except ImportError:
    torch = None

SENTENCEPIECE = importlib.util.find_spec('sentencepiece')
QUERY = 'Which animals jump?'
DOCUMENTS = ['The quick brown fox jumps over the lazy dog.', 'x', 'Über größere Äpfel', 'permissions and limitations under the License ' * 5]
LONG = 'permissions and limitations under the License ' * 60  # more than the model's 300 positions
MODELS = {'rank': ('bert', ['BertForSequenceClassification'], ['LABEL_0']), 'mood': ('bert', ['BertForSequenceClassification'], ['sad', 'so-so', 'glad']),
          'bge': ('roberta', ['XLMRobertaForSequenceClassification'], ['LABEL_0']),
          'pick': ('roberta', ['XLMRobertaForSequenceClassification'], ['no', 'yes']), 'enc': ('bert', ['BertModel'], None)}


def repository():
    """Classifiers of random weights with WordPieces, one as bge-reranker with XLM-R's tokenizer, and an encoder."""
    root = harness.scratch() / 'classifiers'
    for name, (family, architectures, labels) in MODELS.items():
        folder = root / name / '1'
        if folder.exists():
            continue
        if name == 'bge' and not SENTENCEPIECE:
            continue
        folder.mkdir(parents=True)
        tokenizer = ['--tokenizer', 'unigram' if name == 'bge' else 'wordpiece']
        more = ['--set', f'id2label={json.dumps(dict(enumerate(labels)))}'] if labels else []
        subprocess.run(['/usr/bin/python3', str(harness.ROOT / 'tests/reference/random_encoder.py'), *tokenizer, '--family', family,
                        '--set', f'architectures={json.dumps(architectures)}', *more, '--out', str(folder)], check=True, stdout=subprocess.DEVNULL)
        (root / name / 'model.yaml').write_text('max_batch: 64\nbatching: {dynamic: true, max_delay: 2ms}\n')
    return root


class Rerank(harness.Case):
    @classmethod
    def setUpClass(cls):
        if torch is None:
            raise unittest.SkipTest('no python3-torch here')
        cls.repository = repository()
        super().setUpClass()
        cls.models = {}

    def ask(self, path, **body):
        request = urllib.request.Request(self.server.url(path), json.dumps(body).encode(), {'Content-Type': 'application/json'})
        with urllib.request.urlopen(request, timeout=harness.PATIENCE * 3) as answer:
            return json.load(answer)

    def refusal(self, path, **body):
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.ask(path, **body)
        with caught.exception as error:
            return error.code, json.load(error)['error']

    def ids(self, model, text):
        """Without [CLS] and [SEP], which come back beside them."""
        cls, *ids, sep = self.ask('/tokenize', model=model, prompt=text)['tokens']
        return cls, ids, sep

    def reference(self, model, *texts):
        """The reference's logits and scores of a text or a pair."""
        folder = self.repository / model / '1'
        with open(folder / 'config.json') as file:
            said = json.load(file)
        if model not in self.models:
            self.models[model] = bert.load(str(folder)), safetensors.load_folder(str(folder))
        net, weights = self.models[model]
        cls, first, sep = self.ids(model, texts[0])
        ids = [cls, *first, sep]
        types = [0] * len(ids)
        for text in texts[1:]:
            _, second, _ = self.ids(model, text)
            room = 300 - 3 - len(first)
            ids += [*([sep] if model == 'bge' else []), *second[:room], sep]  # </s></s> stand between XLM-R's
            types += [int(model != 'bge')] * (len(ids) - len(types))
        ids, types = torch.tensor([ids]), torch.tensor([types])
        with torch.no_grad():
            states = net(ids, None, types)
            logits, scores = bert.classify(said, weights, states, torch.ones_like(ids))
        return logits[0].numpy(), scores[0].numpy(), ids.shape[1]

    def close(self, given, expected):
        self.assertLess(np.abs(np.array(given) - expected).max(), 1e-4, (given, expected))

    def test_documents_are_ranked_as_the_reference_scores_them(self):
        documents = [*DOCUMENTS, LONG]
        expected = [self.reference('rank', QUERY, text) for text in documents]
        for path in ('/rerank', '/v1/rerank', '/v2/rerank'):
            answer = self.ask(path, model='rank', query=QUERY, documents=documents, return_documents=True)
            self.assertEqual(len(documents), len(answer['results']))
            for result in answer['results']:
                self.close([result['relevance_score']], expected[result['index']][1])
                self.assertEqual(documents[result['index']], result['document']['text'])
            scores = [result['relevance_score'] for result in answer['results']]
            self.assertEqual(sorted(scores, reverse=True), scores)
            self.assertEqual(sum(count for _, _, count in expected), answer['usage']['total_tokens'])
        raw = self.ask('/rerank', model='rank', query=QUERY, documents=documents, use_activation=False, top_n=2)['results']
        self.assertEqual(2, len(raw))
        for result in raw:
            self.close([result['relevance_score']], expected[result['index']][0])

    @unittest.skipUnless(SENTENCEPIECE, 'python3-sentencepiece is not installed')
    def test_a_reranker_with_unigram_pieces(self):
        expected = [self.reference('bge', QUERY, text)[1] for text in DOCUMENTS]
        for result in self.ask('/rerank', model='bge', query=QUERY, documents=DOCUMENTS)['results']:
            self.close([result['relevance_score']], expected[result['index']])
        ids = self.ask('/tokenize', model='bge', prompt='Ｆｕｌｌ width, ﬁne')['tokens']
        self.assertEqual(self.ask('/tokenize', model='bge', prompt='Full  width, fine')['tokens'], ids)
        self.assertEqual('Full width, fine', self.ask('/detokenize', model='bge', tokens=ids[1:-1])['prompt'])

    def test_pairs_are_scored(self):
        one, many = self.reference('rank', QUERY, DOCUMENTS[0]), [self.reference('rank', QUERY, text)[1][0] for text in DOCUMENTS]
        self.close([self.ask('/score', model='rank', text_1=QUERY, text_2=DOCUMENTS[0])['data'][0]['score']], one[1])
        for first in (QUERY, [QUERY], [QUERY] * len(DOCUMENTS)):
            answer = self.ask('/v1/score', model='rank', text_1=first, text_2=DOCUMENTS)
            self.close([row['score'] for row in answer['data']], many)
        code, error = self.refusal('/score', model='rank', text_1=QUERY, text_2=LONG)
        self.assertEqual((400, 'context_length_exceeded', 'text_2'), (code, error['code'], error['param']))
        cut = self.ask('/score', model='rank', text_1=QUERY, text_2=LONG, truncate_prompt_tokens=-1)
        self.close([cut['data'][0]['score']], self.reference('rank', QUERY, LONG)[1])

    def test_texts_are_classified(self):
        for model in ('mood', 'pick', 'rank'):
            labels = MODELS[model][2]
            answer = self.ask('/classify', model=model, input=DOCUMENTS)
            for text, row in zip(DOCUMENTS, answer['data']):
                scores = self.reference(model, text)[1]
                self.close(row['probs'], scores)
                self.assertEqual((labels[int(scores.argmax())], len(labels)), (row['label'], row['num_classes']))

    def test_the_other_protocols_have_scores_and_labels(self):
        _, ids, _ = self.ids('mood', DOCUMENTS[0])
        inputs = [{'name': 'input_ids', 'datatype': 'INT64', 'shape': [1, len(ids)], 'data': ids}]
        answer = self.ask('/v2/models/mood/infer', inputs=inputs)
        self.assertEqual({'scores': [1, 3], 'logits': [1, 3]}, {o['name']: o['shape'] for o in answer['outputs']})
        classes = self.ask('/v2/models/mood/infer', inputs=inputs, outputs=[{'name': 'scores', 'parameters': {'classification': 1}}])
        self.assertRegex(classes['outputs'][0]['data'][0], r'^0\.\d+:\d:(sad|so-so|glad)$')
        self.assertEqual({name for name in MODELS if name != 'bge' or SENTENCEPIECE}, {row['id'] for row in json.load(urllib.request.urlopen(self.server.url('/v1/models')))['data']})

    def test_a_model_that_cannot_says_what_it_does(self):
        code, error = self.refusal('/rerank', model='enc', query='a', documents=['b'])
        self.assertEqual((400, 'model'), (code, error['param']), error['message'])
        self.assertIn('it gives embeddings', error['message'])
        code, error = self.refusal('/v1/embeddings', model='rank', input='a')
        self.assertEqual((400, 'model'), (code, error['param']))
        self.assertIn('it gives scores of texts', error['message'])
        self.assertIn('/classify', self.refusal('/score', model='mood', text_1='a', text_2='b')[1]['message'])
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.ask('/api/embed', model='rank', input='a')
        with caught.exception as error:
            self.assertIn('it gives scores of texts', json.load(error)['error'])

    def test_many_long_documents_hold_up_nobody_else(self):
        many = 100 if harness.SANITIZED else 1000

        def attack(_):
            answer = self.ask('/rerank', model='rank', query='a b ' * 20000, documents=['c d ' * 200] * many, return_documents=False)
            self.assertEqual(many, len(answer['results']))

        with harness.threads(3, attack):
            for _ in range(10):
                began = time.monotonic()
                with urllib.request.urlopen(self.server.url('/livez'), timeout=harness.PATIENCE) as page:
                    self.assertEqual(200, page.status)
                self.assertLess(time.monotonic() - began, 2)

    def test_coheres_client(self):
        env = {**os.environ, 'NODE_PATH': str(harness.ROOT / '.cache/npm/node_modules')}
        done = subprocess.run(['node', str(harness.ROOT / 'tests/e2e/cohere_client.js'), self.server.url(), 'rank', 'enc'],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120, env=env)
        self.assertEqual(0, done.returncode, done.stdout.decode())
        self.assertRegex(done.stdout.decode(), r'(?m)^11 passed, 0 failed$')


if __name__ == '__main__':
    harness.main()
