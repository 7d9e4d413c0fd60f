import asyncio

import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    async def execute(self, requests):
        return [await self.answer(request) for request in requests]

    async def answer(self, request):
        a = pb_utils.get_input_tensor_by_name(request, 'A').as_numpy()
        model = pb_utils.get_input_tensor_by_name(request, 'MODEL').as_numpy()[0][0]
        response = self.sum_of(model, a).exec()
        if response.has_error():
            return pb_utils.InferenceResponse(error=response.error())
        total = pb_utils.get_output_tensor_by_name(response, 'SUM')
        both = await asyncio.gather(*[self.sum_of(model, part).async_exec() for part in (a, total.as_numpy())])
        first, second = [pb_utils.get_output_tensor_by_name(r, 'SUM').as_numpy() for r in both]
        return pb_utils.InferenceResponse([total, pb_utils.Tensor('TWICE', second if (first == total.as_numpy()).all() else a)])

    @staticmethod
    def sum_of(model, array):
        return pb_utils.InferenceRequest(model_name=model, requested_output_names=['SUM'],
                                         inputs=[pb_utils.Tensor(name, array) for name in 'AB'])
