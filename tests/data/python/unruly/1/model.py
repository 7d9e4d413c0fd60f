import os
import signal
import sys
import time

import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.obey(pb_utils.get_input_tensor_by_name(r, 'DO').as_numpy()[0].decode()) for r in requests]

    def obey(self, order):
        if order == 'exit':
            os._exit(7)
        elif order == 'crash':
            os.kill(os.getpid(), signal.SIGSEGV)
        elif order == 'hang':
            time.sleep(3600)
        elif order == 'raise':
            raise ValueError('an odd value')
        elif order == 'flood':
            for i in range(50_000):
                print('line', i, 'of a flood')
        elif order == 'eat':
            self.eaten = [np.empty(1 << 26) for _ in range(64)]
        elif order == 'type':
            return pb_utils.InferenceResponse([pb_utils.Tensor('DONE', np.zeros(1, np.float32))])
        elif order == 'name':
            return pb_utils.InferenceResponse([pb_utils.Tensor('ELSE', np.zeros(1, np.float32))])
        elif order == 'nothing':
            return None
        elif order == 'descriptors':
            order = ' '.join(sorted(os.listdir('/proc/self/fd'), key=int))
        elif order == 'pid':
            order = str(os.getpid())
        elif order == 'secrets':
            order = ' '.join(sorted(k for k in os.environ if k.startswith('WEIR_')))
        sys.stderr.write('done\n')
        return pb_utils.InferenceResponse([pb_utils.Tensor('DONE', np.array([order.encode()], dtype=np.object_))])
