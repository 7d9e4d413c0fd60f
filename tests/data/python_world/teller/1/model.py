import json
import os
import threading

import numpy as np
import triton_python_backend_utils as pb_utils

Family = pb_utils.MetricFamily


class TritonPythonModel:
    def initialize(self, args):
        self.family = Family(name='teller_total', description='What was told,\nwith \\ in it.', kind=Family.COUNTER)
        self.told = self.family.Metric(labels={'version': '1', 'model': 'a "quoted"\n\\name'})
        self.gauges = Family(name='teller_level', description='A level.', kind=Family.GAUGE)
        self.level = self.gauges.Metric()
        self.histograms = Family(name='teller_size', description='Sizes.', kind=Family.HISTOGRAM)
        self.sizes = self.histograms.Metric(labels={'a': 'b'}, buckets=[0.5, 1, 10])
        self.kept = []

    def count(self, by):
        self.told.increment(float(by))

    def level_to(self, to):
        self.level.set(float(to))

    def observe(self, *values):
        for value in values:
            self.sizes.observe(float(value))

    def value(self):
        return self.told.value()

    def wrong(self, what):
        """The text of the exception."""
        wrong = {
            'fall': lambda: self.told.increment(-1), 'nan': lambda: self.told.increment(float('nan')),
            'set a counter': lambda: self.told.set(1), 'value of a histogram': lambda: self.sizes.value(),
            'observe infinity': lambda: self.sizes.observe(float('inf')),
            'no buckets': lambda: self.histograms.Metric(), 'buckets': lambda: self.gauges.Metric(buckets=[1]),
            'buckets that fall': lambda: self.histograms.Metric(labels={}, buckets=[2, 1]),
            'label': lambda: self.gauges.Metric(labels={'a b': 'c'}), 'number': lambda: self.gauges.Metric(labels={'a': 1}),
            'le': lambda: self.histograms.Metric(labels={'le': '1'}, buckets=[1]),
            'long': lambda: self.gauges.Metric(labels={'a': 'x' * 5000}),
            'longer': lambda: self.gauges.Metric(labels={'a': 'x' * 100_000}),
            'kind': lambda: Family(name='teller_level', description='', kind=Family.COUNTER),
            'sum': lambda: Family(name='teller_size_sum', description='', kind=Family.GAUGE),
            'weir': lambda: Family(name='weir_requests_total', description='', kind=Family.COUNTER),
            'triton': lambda: Family(name='nv_inference_count', description='', kind=Family.COUNTER),
            'name': lambda: Family(name='a\n# EOF\nb', description='', kind=Family.COUNTER),
        }
        wrong[what]()

    def flood(self, what):
        for i in range(1_000_000):
            self.kept.append(self.gauges.Metric(labels={'i': str(i)}) if what == 'labels' else
                             Family(name=f'flood_{i}', description='', kind=Family.GAUGE))

    def many(self, n):
        def count():
            for _ in range(int(n)):
                self.told.increment(1)
        threads = [threading.Thread(target=count) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def drop(self):
        self.kept.clear()
        del self.histograms
        self.sizes.observe(1)

    def load(self, name, *more):
        pb_utils.load_model(model_name=name, **(json.loads(more[0]) if more else {}))

    def load_files(self, name, file, size):
        with open(file, 'rb') as f:
            files = {'file:1/model.onnx': f.read(), 'file:1/notes.txt': b'#' * int(size)}
        pb_utils.load_model(name, json.dumps({'backend': 'onnxruntime'}), files)

    def unload(self, name):
        pb_utils.unload_model(model_name=name)

    def ready(self, name, version=''):
        return pb_utils.is_model_ready(model_name=name, model_version=version)

    def crash(self):
        os._exit(3)

    def execute(self, requests):
        responses = []
        for request in requests:
            order, *words = [w.decode() for w in pb_utils.get_input_tensor_by_name(request, 'DO').as_numpy().ravel()]
            try:
                done = getattr(self, order)(*words)
            except pb_utils.TritonModelException as e:
                done = f'TritonModelException: {e}'
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor('DONE', np.array([str(done)], dtype=object))]))
        return responses
