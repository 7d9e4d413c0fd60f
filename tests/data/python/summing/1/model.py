import asyncio
import itertools

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        n = pb_utils.get_input_tensor_by_name(request, 'N')
        how = pb_utils.get_input_tensor_by_name(request, 'HOW').as_numpy()[0].decode()
        counting = pb_utils.InferenceRequest(model_name='counting', requested_output_names=['I'], inputs=[n])
        if how == 'both':
            lists = await asyncio.gather(counting.async_exec(decoupled=True), counting.async_exec(decoupled=True))
        elif how == 'once':
            both = [pb_utils.Tensor(name, n.as_numpy().reshape(1, 1)) for name in 'AB']
            lists = [pb_utils.InferenceRequest(model_name='completed', inputs=both).exec(decoupled=True)]
        else:
            lists = [counting.exec(decoupled=True)]
        if how == 'never':
            lists = []
        if how == 'some':
            lists = [itertools.islice(lists[0], 3)]
        if how == 'cancelled':
            next(lists[0])
            lists[0].cancel()
        total = answers = 0
        for response in itertools.chain(*lists):
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            for tensor in response.output_tensors():
                total += int(tensor.as_numpy().ravel()[0])
                answers += 1
        if how == 'all':
            lists[0].cancel()  # it is over, which is no error
        return pb_utils.InferenceResponse([pb_utils.Tensor(name, np.array([value]))  # INT64
                                           for name, value in (('SUM', total), ('ANSWERS', answers))])
