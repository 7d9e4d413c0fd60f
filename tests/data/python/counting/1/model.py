import threading

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            n = pb_utils.get_input_tensor_by_name(request, 'N').as_numpy()  # the thread keeps it
            if n[0] == 13:
                raise pb_utils.TritonModelException('thirteen is no number to count to')
            threading.Thread(target=self.count, args=(request.get_response_sender(), n), daemon=True).start()
        return None

    @staticmethod
    def count(sender, n):
        for i in range(abs(int(n[0]))):
            if sender.is_cancelled():
                pb_utils.Logger.log_info('nobody listens any more')
                break
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([i], np.int32))]))
        if n[0] < 0:
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError('it went wrong')))
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor('I', np.array([7], np.int32))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        if n[0] < 0:
            pb_utils.Logger.log_info('the count that went wrong is over')
