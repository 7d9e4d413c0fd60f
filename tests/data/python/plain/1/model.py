import json

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.config = json.loads(args['model_config'])
        self.greeting = self.config['parameters']['greeting']['string_value']
        self.mean_type = pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(self.config, 'MEAN')['data_type'])
        self.executions = 0
        self.logger = pb_utils.Logger
        self.logger.log_warn(f"{args['model_name']} version {args['model_version']} is there")

    def execute(self, requests):
        self.executions += 1
        responses = []
        for request in requests:
            values = pb_utils.get_input_tensor_by_name(request, 'VALUES').as_numpy()
            if np.isnan(values).any():
                error = pb_utils.TritonError('a value is no number', pb_utils.TritonError.INVALID_ARG)
                responses.append(pb_utils.InferenceResponse(error=error))
                continue
            name = pb_utils.get_input_tensor_by_name(request, 'NAME')
            names = name.as_numpy().ravel() if name is not None else [b'nobody'] * len(values)
            greetings = np.array([[f'{self.greeting}, {n.decode()}'] for n in names], dtype=np.object_)
            seen = json.dumps({'id': request.request_id(), 'correlation_id': request.correlation_id(), 'flags': request.flags(),
                               'parameters': json.loads(request.parameters()), 'together': len(requests),
                               'outputs': sorted(request.requested_output_names()), 'cancelled': request.is_cancelled()})
            responses.append(pb_utils.InferenceResponse(
                [pb_utils.Tensor('MEAN', values.mean(axis=1, keepdims=True).astype(self.mean_type)),
                 pb_utils.Tensor('GREETING', greetings),
                 pb_utils.Tensor('SEEN', np.array([[seen.encode()]] * len(values), dtype=np.object_))],
                parameters={'executions': self.executions}))
        return responses

    def finalize(self):
        self.logger.log_warn('plain says goodbye')
