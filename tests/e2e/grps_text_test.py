"""Models of text by way of GRPS and GraphPipe, and what must not end the process: the real binary, curl and grpcio."""

import json

import harness
from harness import curl

JSON = ('-H', 'Content-Type: application/json')
pb, rpc = harness.stubs()('grps')


class Text(harness.GrpcCase):
    stub_class = rpc.GrpsServiceStub

    def predict(self, body, query=''):
        return curl(self.server.url('/grps/v1/infer/predict' + query), *JSON, data=json.dumps(body))

    def test_a_prompt_is_str_data_and_a_stream_says_the_same_in_pieces(self):
        question = {'model': 'chat', 'gmap': {'s_s': {'text_input': 'curl', 'sampling_parameters': '{"temperature": 0}'}}}
        whole = self.predict(question).json()
        self.assertEqual('chat-1', whole['model'])
        text = whole['gmap']['s_s']['text_output']
        request = pb.GrpsMessage(model='chat')
        request.gmap.s_s['text_input'] = 'curl'
        request.gmap.s_s['sampling_parameters'] = '{"temperature": 0}'
        parts = [p.gmap.s_s['text_output'] for p in self.stub.PredictStreaming(request)]
        self.assertGreater(len(parts), 2)
        self.assertEqual(text, ''.join(parts))
        self.assertIn('str_data', self.predict({'str_data': 'curl'}, '?model=chat').json())

    def test_pieces_are_no_unary_answer(self):
        words = {'text_input': 'curl', 'sampling_parameters': '{"temperature": 0}'}  # an answer of several tokens
        answer = self.predict({'model': 'chat', 'gmap': {'s_s': words, 's_i32': {'stream': 1}}})
        self.assertEqual((501, 501), (answer.status, answer.json()['status']['code']))

    def test_dimensions_without_elements_and_endless_names_are_refused_at_once(self):
        tensor = {'name': 'a', 'dtype': 'DT_FLOAT32', 'shape': [4294967295, 0]}
        body = {'gtensors': {'tensors': [tensor]}}
        self.assertEqual(400, self.predict(body, '?model=identity&return-ndarray=true').status)
        self.assertEqual(400, self.predict({'model': 'x-' + '.0' * 1_000_000, 'str_data': 'x'}).status)
        self.assertEqual(200, self.predict({'str_data': 'x'}, '?model=identity').status)


if __name__ == '__main__':
    harness.main()
