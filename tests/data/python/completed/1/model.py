"""Without a configuration: the model says by itself what it takes."""
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        for name in ('A', 'B'):
            config.add_input({'name': name, 'data_type': 'TYPE_INT32', 'dims': [-1]})
        config.add_output({'name': 'SUM', 'data_type': 'TYPE_INT32', 'dims': [-1]})
        config.set_max_batch_size(4)
        config.set_dynamic_batching()
        return config

    async def execute(self, requests):
        tensors = [[pb_utils.get_input_tensor_by_name(r, n).as_numpy() for n in 'AB'] for r in requests]
        return [pb_utils.InferenceResponse([pb_utils.Tensor('SUM', a + b)]) for a, b in tensors]
