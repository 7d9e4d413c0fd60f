import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        start, sequence, x = (int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0])
                              for name in ('START', 'CORRID', 'X'))
        if x < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError('try later', pb_utils.TritonError.UNAVAILABLE))
        self.sums[sequence] = (0 if start else self.sums.get(sequence, 0)) + x
        return pb_utils.InferenceResponse([pb_utils.Tensor('SUM', np.array([[self.sums[sequence]]], np.int32))])
