"""Runs a model.py written for Triton's Python backend, as a child of the server (protocol.h says how they speak).

The module `triton_python_backend_utils` that models import is made here, at the end of this file's first half; it has the
names and meanings of https://github.com/triton-inference-server/python_backend. The second half is the worker.
"""

import asyncio
import collections
import concurrent.futures
import contextlib
import ctypes
import enum
import gc
import importlib.util
import inspect
import itertools
import json
import math
import mmap
import os
import queue
import select
import socket
import struct
import sys
import threading
import time
import traceback
import types
import weakref

try:
    import numpy as np
except ImportError:
    np = None  # load() says so

# ---- triton_python_backend_utils ----

pb_utils = types.ModuleType('triton_python_backend_utils')

TYPES = ['INVALID', 'BOOL', 'UINT8', 'UINT16', 'UINT32', 'UINT64', 'INT8', 'INT16', 'INT32', 'INT64', 'FP16', 'FP32', 'FP64',
         'STRING', 'BF16']  # by number
NUMPY = [None] + [np.dtype(t) for t in ('?', 'u1', 'u2', 'u4', 'u8', 'i1', 'i2', 'i4', 'i8', 'f2', 'f4', 'f8', 'O')] + [None] \
    if np else []
NUMBERS = {dtype: number for number, dtype in enumerate(NUMPY) if dtype is not None}
BOOL, BYTES, BF16 = 1, 13, 14


def public(thing):
    setattr(pb_utils, thing.__name__, thing)
    return thing


@public
class TritonModelException(Exception):
    """What a model raises: its text is the answer to the requests at hand."""


@public
class TritonError:
    UNKNOWN, INTERNAL, NOT_FOUND, INVALID_ARG, UNAVAILABLE, UNSUPPORTED, ALREADY_EXISTS, CANCELLED = range(8)
    GRPC = (2, 13, 5, 3, 14, 12, 6, 1)

    def __init__(self, message, code=INTERNAL):
        self._message, self._code = str(message), int(code)

    def message(self):
        return self._message

    def code(self):
        return self._code

    def __str__(self):
        return self._message


@public
def triton_to_numpy_type(number):
    return np.bool_ if number == 1 else NUMPY[number].type


@public
def numpy_to_triton_type(dtype):
    dtype = np.dtype(dtype)
    return BYTES if dtype.kind == 'S' else NUMBERS.get(dtype)


@public
def triton_string_to_numpy(name):
    number = TYPES.index(name.removeprefix('TYPE_'))
    return bool if number == 1 else NUMPY[number].type


@public
def serialize_byte_tensor(array):
    """Each element behind its length, in row-major order."""
    if array.size == 0:
        return b''
    parts = []
    for element in array.ravel(order='C').tolist():
        data = element if isinstance(element, bytes) else str(element).encode()
        parts += (struct.pack('<I', len(data)), data)
    return b''.join(parts)


@public
def deserialize_bytes_tensor(data):
    elements, at = [], 0
    while at < len(data):
        size, = struct.unpack_from('<I', data, at)
        elements.append(bytes(data[at + 4:at + 4 + size]))
        at += 4 + size
    array = np.empty(len(elements), dtype=np.object_)
    array[:] = elements
    return array


def named(tensors, name):
    for tensor in tensors:
        if tensor._name == name:
            return tensor
    return None


@public
def get_input_tensor_by_name(request, name):
    return named(request.inputs(), name)


@public
def get_output_tensor_by_name(response, name):
    return named(response.output_tensors(), name)


def config_of(model_config, kind, name):
    return next((t for t in model_config.get(kind, ()) if t['name'] == name), None)


@public
def get_input_config_by_name(model_config, name):
    return config_of(model_config, 'input', name)


@public
def get_output_config_by_name(model_config, name):
    return config_of(model_config, 'output', name)


@public
def using_decoupled_model_transaction_policy(model_config):
    return bool(model_config.get('model_transaction_policy', {}).get('decoupled', False))


@public
def get_model_dir():
    return os.path.dirname(worker.file)


@public
class ModelConfig:
    """What auto_complete_config() fills in."""

    def __init__(self, model_config):
        self._model_config = json.loads(model_config)

    def as_dict(self):
        return self._model_config

    def set_max_batch_size(self, size):
        if self._model_config['max_batch_size'] > size:
            raise ValueError(f"configuration specified max_batch_size {self._model_config['max_batch_size']}, but "
                             f"auto_complete_config of model '{self._model_config['name']}' sets {size}")
        self._model_config['max_batch_size'] = size

    def set_dynamic_batching(self):
        for other in ('sequence_batching', 'ensemble_scheduling'):
            if other in self._model_config:
                raise ValueError(f"the configuration of model '{self._model_config['name']}' has {other}; "
                                 'auto_complete_config sets dynamic_batching')
        self._model_config.setdefault('dynamic_batching', {})

    def set_model_transaction_policy(self, policy):
        if set(policy) - {'decoupled'}:
            raise ValueError("a model transaction policy has no property but 'decoupled'")
        ours = self._model_config.setdefault('model_transaction_policy', {})
        if 'decoupled' in policy:
            if ours.get('decoupled', policy['decoupled']) != policy['decoupled']:
                raise ValueError(f"'decoupled' is set to {ours['decoupled']} already")
            ours['decoupled'] = policy['decoupled']

    def add_input(self, tensor):
        self._add('input', tensor, ('name', 'data_type', 'dims', 'optional'))

    def add_output(self, tensor):
        self._add('output', tensor, ('name', 'data_type', 'dims'))

    def _add(self, kind, tensor, known):
        who = f"{kind} '{tensor.get('name', '')}' of model '{self._model_config['name']}'"
        for key in ('name', 'data_type', 'dims'):
            if key not in tensor:
                raise ValueError(f"{who} has no '{key}'")
        for key in tensor:
            if key not in known:
                raise ValueError(f"{who} has a property '{key}'; there are {', '.join(known)}")
        ours = config_of(self._model_config, kind, tensor['name'])
        if ours is None:
            self._model_config[kind].append(dict(tensor))
            return
        for key, unset in (('data_type', 'TYPE_INVALID'), ('dims', [])):
            if ours.get(key, unset) not in (unset, tensor[key]):
                raise ValueError(f'{who} has {key} {tensor[key]}; the configuration says {ours[key]}')
        ours.update(tensor)


pb_utils.LogLevel = enum.IntEnum('LogLevel', {'INFO': 0, 'WARNING': 1, 'ERROR': 2, 'VERBOSE': 3})


def check_types(where, *values):
    """As Triton's own classes have it, which are C++: for each (name, value, types), TypeError where the value is of none."""
    for name, value, types in values:
        if not isinstance(value, types):
            raise TypeError(f'{where}: {name} must not be {type(value).__name__}')


def check_number(where, **values):
    for name, value in values.items():
        if not hasattr(value, '__index__'):
            raise TypeError(f'{where}: {name} must be a whole number, not {type(value).__name__}')


@public
class Logger:
    INFO, WARNING, ERROR, VERBOSE = pb_utils.LogLevel
    LEVELS = (6, 4, 3, 7)

    @staticmethod
    def log(message, level=INFO):
        check_types('Logger', ('message', message, (str, bytes)), ('level', level, pb_utils.LogLevel))
        lines = (message if isinstance(message, str) else message.decode(errors='replace')).splitlines() or ['']
        sys.stderr.write(''.join(f'<{Logger.LEVELS[int(level)]}>{line}\n' for line in lines))
        sys.stderr.flush()

    @staticmethod
    def log_info(message):
        Logger.log(message, Logger.INFO)

    @staticmethod
    def log_warn(message):
        Logger.log(message, Logger.WARNING)

    @staticmethod
    def log_error(message):
        Logger.log(message, Logger.ERROR)

    @staticmethod
    def log_verbose(message):
        Logger.log(message, Logger.VERBOSE)


@public
class Tensor:
    """A name and an array. An input's array lies in memory that the server shares with this process: as long as the model
    holds it, the server leaves that memory alone."""

    __slots__ = ('_name', '_array', '_number', '_shape', '_region', '_at', '_size')

    def __init__(self, name, array):
        check_types('Tensor', ('name', name, (str, bytes)), ('its array', array, np.ndarray))
        self._number = NUMBERS.get(array.dtype) or numpy_to_triton_type(array.dtype)
        if self._number is None:
            raise TritonModelException(f"Tensor '{name}': there is no type for numpy's {array.dtype}")
        name = name if isinstance(name, str) else name.decode()
        self._name, self._array, self._shape, self._region = name, array, array.shape, None

    @classmethod
    def _of(cls, name, number, shape, region, at, size):
        tensor = cls.__new__(cls)
        tensor._name, tensor._number, tensor._shape, tensor._array = name, number, shape, None
        tensor._region, tensor._at, tensor._size = region, at, size
        return tensor

    def _raw(self):
        return self._region[self._at:self._at + self._size]

    def name(self):
        return self._name

    def shape(self):
        return list(self._shape)

    def triton_dtype(self):
        return self._number

    def is_cpu(self):
        return True

    def as_numpy(self):
        if self._array is None:
            if self._number == BF16:
                raise TritonModelException(f"tensor '{self._name}' is BF16, which numpy has not")
            if self._number == BYTES:
                self._array = deserialize_bytes_tensor(self._raw().data).reshape(self._shape)
            else:
                self._array = np.ndarray(self._shape, NUMPY[self._number], self._region, self._at)
        return self._array

    def to_dlpack(self):
        return to_capsule(self)

    @staticmethod
    def from_dlpack(name, source):
        if hasattr(source, '__dlpack__'):
            check_device(source.__dlpack_device__()[0])
            source = source.__dlpack__()
        if not name or type(source).__name__ != 'PyCapsule':
            raise TritonModelException('from_dlpack() takes a name and a capsule, or what has __dlpack__()')
        return from_capsule(str(name), source)

    def __dlpack__(self, stream=None):
        return to_capsule(self)

    def __dlpack_device__(self):
        return ON_CPU, 0

    def _about_bytes(self):
        if self._array is None:
            return self._size
        if self._number == BYTES:
            return sum(4 + len(one) if isinstance(one, (bytes, str)) else 64 for one in self._array.flat)
        return self._array.nbytes

    def _bytes(self):
        """What is copied to the server: something with the buffer protocol."""
        if self._array is None:
            return self._raw()
        if self._number == BYTES:
            return serialize_byte_tensor(self._array)
        return np.ascontiguousarray(self._array)


# DLPack's capsules (https://dmlc.github.io/dlpack/latest/c_api.html). numpy makes and reads them, but has no BF16, and no
# BOOL in old versions: whole numbers of that size stand for them, and the type in the capsule is put right.

class DLTensor(ctypes.Structure):
    """The beginning of a DLManagedTensor, up to the type of an element."""
    _fields_ = [('data', ctypes.c_void_p), ('device', ctypes.c_int32), ('device_number', ctypes.c_int32),
                ('dims', ctypes.c_int32), ('code', ctypes.c_uint8), ('bits', ctypes.c_uint8), ('lanes', ctypes.c_uint16)]


ON_CPU, PINNED_BY_CUDA, PINNED_BY_ROCM = 1, 3, 11  # DLDeviceType
WHOLE, BFLOAT, TRUTH = 1, 4, 6  # DLDataTypeCode: unsigned, bfloat, bool
pointer_in = ctypes.pythonapi.PyCapsule_GetPointer
pointer_in.restype, pointer_in.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)


class Source:
    """Has a capsule, as numpy wants it."""

    def __init__(self, capsule):
        self.capsule = capsule

    def __dlpack__(self, stream=None):
        return self.capsule

    def __dlpack_device__(self):
        return ON_CPU, 0


def check_device(device):
    if device not in (ON_CPU, PINNED_BY_CUDA, PINNED_BY_ROCM):
        raise TritonModelException(f'from_dlpack() takes tensors in memory of the CPU, not on a device of type {device}')


def described(capsule):
    return DLTensor.from_address(pointer_in(capsule, b'dltensor'))


def to_capsule(tensor):
    if tensor._number == BF16:
        capsule = np.ndarray(tensor._shape, np.uint16, tensor._region, tensor._at).__dlpack__()
        described(capsule).code = BFLOAT
    elif tensor._number == BOOL:
        capsule = tensor.as_numpy().view(np.uint8).__dlpack__()
        described(capsule).code = TRUTH
    else:
        capsule = tensor.as_numpy().__dlpack__()
    return capsule


def from_capsule(name, capsule):
    tensor = described(capsule)
    check_device(tensor.device)
    kind = tensor.code, tensor.bits, tensor.lanes
    if kind in ((BFLOAT, 16, 1), (TRUTH, 8, 1)):
        tensor.code = WHOLE
    array = np.from_dlpack(Source(capsule))
    if kind == (BFLOAT, 16, 1):
        return Tensor._of(name, BF16, array.shape, np.ascontiguousarray(array).reshape(-1).view(np.uint8), 0, array.nbytes)
    return Tensor(name, array.view(np.bool_) if kind == (TRUTH, 8, 1) else array)


def check_parameters(parameters):
    """Those of a request or a response, as a dictionary."""
    if parameters is None:
        return {}
    if not isinstance(parameters, dict):
        raise TritonModelException(f'parameters must be a dict, got {type(parameters)}')
    for name, value in parameters.items():
        if not isinstance(name, str):
            raise TritonModelException(f'Expect parameters keys to have type str, found type {type(name)}')
        if not isinstance(value, (bool, int, float, str)):
            raise TritonModelException('Expect parameters values to have type bool/int/str, found type '
                                       f'{type(value)}')
        if isinstance(value, int) and not -1 << 63 <= value < 1 << 64:
            raise TritonModelException(f"parameter '{name}' takes whole numbers of 64 bits, not {value}")
    return parameters


def list_of_tensors(where, tensors):
    tensors = list(tensors)  # None is none
    if any(tensor is None for tensor in tensors):
        raise TritonModelException(f'{where}: None is no Tensor')
    check_types(where, *(('a tensor', tensor, Tensor) for tensor in tensors))
    return tensors


@public
class InferenceResponse:
    def __init__(self, output_tensors=(), error=None, parameters=None):
        self._tensors = list_of_tensors('InferenceResponse', output_tensors)
        self._error, self._parameters = error, check_parameters(parameters)

    def output_tensors(self):
        return self._tensors

    def has_error(self):
        return self._error is not None

    def error(self):
        return self._error

    def parameters(self):
        return json.dumps(self._parameters)


pb_utils.MemoryType = enum.IntEnum('MemoryType', {'TRITONSERVER_MEMORY_GPU': 0, 'TRITONSERVER_MEMORY_CPU': 1})
pb_utils.TRITONSERVER_MEMORY_GPU, pb_utils.TRITONSERVER_MEMORY_CPU = pb_utils.MemoryType


@public
class PreferredMemory:
    """Where a model wants another one's answer to lie. It is a wish: answers lie in memory of the CPU."""

    def __init__(self, preferred_memory_type, preferred_device_id=0):
        self._type, self._device = pb_utils.MemoryType(preferred_memory_type), int(preferred_device_id)


@public
class InferenceTrace:
    """What a request says of its trace. It is not traced here."""

    def get_context(self):
        return None


@public
class InferenceRequest:
    """A request of a client, or one that the model makes to another model by exec() or async_exec()."""

    _again = False  # the model wants it in another execute()

    def __init__(self, request_id='', correlation_id=0, inputs=None, requested_output_names=(), model_name=None,
                 model_version=-1, flags=0, timeout=0, preferred_memory=None, trace=None, parameters=None):
        check_types('InferenceRequest', ('request_id', request_id, (str, bytes)), ('model_name', model_name, (str, bytes)),
                    ('requested_output_names', requested_output_names, (list, tuple)),
                    *(('an output', name, (str, bytes)) for name in requested_output_names or ()))
        if not isinstance(correlation_id, str):
            check_number('InferenceRequest', correlation_id=correlation_id)
        check_number('InferenceRequest', model_version=model_version, flags=flags, timeout=timeout)
        self._id, self._correlation_id = request_id if isinstance(request_id, str) else request_id.decode(), correlation_id
        self._inputs = list_of_tensors('InferenceRequest', inputs)
        self._outputs, self._flags, self._timeout = list(requested_output_names), flags, timeout
        self._parameters, self._number, self._sender = check_parameters(parameters), None, None
        self._trace, self._made = trace, ()
        self._model, self._version = model_name, str(model_version) if int(model_version) > 0 else ''

    @classmethod
    def _of(cls, parsed, region, made):
        """One of a client, of a model that makes the outputs `made`; `parsed` stays as it is."""
        request = cls.__new__(cls)
        request._made = made
        request._number, request._id, request._timeout, parameters, outputs, tensors = parsed
        request._parameters, request._outputs, request._sender = {}, list(outputs), None
        request._correlation_id = request._flags = 0
        if parameters:
            request._correlation_id = parameters.get('sequence_id', 0)
            request._flags = bool(parameters.get('sequence_start')) | bool(parameters.get('sequence_end')) << 1
            request._parameters = {k: v for k, v in parameters.items() if k not in SEQUENCE}
        request._inputs = [Tensor._of(name, kind, shape, region, at, size) for name, kind, shape, at, size in tensors]
        request._model = request._version = ''
        request._trace = None
        return request

    def inputs(self):
        return self._inputs

    def request_id(self):
        return self._id

    def correlation_id(self):
        return self._correlation_id

    def flags(self):
        return self._flags

    def set_flags(self, flags):
        self._flags = flags

    def timeout(self):
        return self._timeout

    def parameters(self):
        return json.dumps(self._parameters)

    def _sent_parameters(self):
        """Its own, and those of the protocol, by which a client says the same."""
        said = {'sequence_id': self._correlation_id, 'timeout': int(self._timeout),
                'sequence_start': bool(self._flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START),
                'sequence_end': bool(self._flags & pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)}
        return {**self._parameters, **{name: value for name, value in said.items() if value}}

    def requested_output_names(self):
        return self._outputs or list(self._made)  # a client that names none asks for all

    def is_cancelled(self):
        return self._number is not None and worker.is_cancelled(self._number)

    def get_response_sender(self):
        if self._sender is None:
            self._sender = worker.sender(self)
        return self._sender

    def trace(self):
        if self._trace is None:
            self._trace = InferenceTrace()
        return self._trace

    def set_release_flags(self, flags):
        if flags not in (pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL, pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE):
            raise TritonModelException(f'release flags are ALL or RESCHEDULE, not {flags}')
        again = flags == pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE
        if again and not worker.slots:
            raise TritonModelException('requests are scheduled again only with sequence_batching { iterative_sequence: true }')
        self._again = again

    def exec(self, decoupled=False):
        return Responses(worker.ask(self, MANY)) if decoupled else worker.wait_for(worker.ask(self))

    def async_exec(self, decoupled=False):
        if decoupled:
            return self._responses(Responses(worker.ask(self, MANY)))
        return self._answer(worker.ask(self))  # it is on its way before anybody waits

    @staticmethod
    async def _responses(responses):
        """The first of them is there: reading it does not hold up the loop, where other requests go on."""
        await asyncio.get_running_loop().run_in_executor(WAITING, responses._wait_for_the_first)
        return responses

    @staticmethod
    async def _answer(number):
        return await asyncio.get_running_loop().run_in_executor(WAITING, worker.wait_for, number)


WAITING = concurrent.futures.ThreadPoolExecutor(256, 'waiting')  # a thread for each request that may be open


class Responses:
    """The answers to a request of the model's, as they come. Those that nobody reads any more are not made."""

    def __init__(self, number):
        self._number, self._over = number, False

    def _wait_for_the_first(self):
        worker.pump(lambda: worker.replies.get(self._number, True))

    def __iter__(self):
        return self

    def __next__(self):
        if self._over:
            raise StopIteration
        response, self._over = worker.next_reply(self._number)
        if not self._over:
            worker.send(TOOK, number=self._number, size=1)
        return response

    def cancel(self):
        """Asks for no further answers. Those that are under way still come; the last one is the error CANCELLED, unless the
        request is over before."""
        if not self._over:
            worker.send(FORGET, MANY, self._number)

    def close(self):
        if not self._over:
            self._over = True
            worker.forget(self._number)

    __del__ = close


class MetricKind(enum.IntEnum):
    COUNTER, GAUGE, HISTOGRAM = range(3)


@public
class MetricFamily:
    """Metrics of one name in the server's /metrics, until this is deleted. Those with the same labels are one metric, whichever
    model has made them."""

    COUNTER, GAUGE, HISTOGRAM = MetricKind

    _number = None

    def __init__(self, name, description, kind):
        self._kind = MetricKind(kind)
        document = pack_text(str(name)) + pack_text(str(description)) + struct.pack('<B', self._kind)
        self._number, = struct.unpack('<Q', side.ask(METRIC_FAMILY, document, 'Error when creating MetricFamily'))
        self._made = []

    def Metric(self, labels=None, buckets=None):
        if labels is not None and not isinstance(labels, dict):
            raise TritonModelException('Failed to create metric. Labels must be a dictionary.')
        if buckets is not None and not isinstance(buckets, list):
            raise TritonModelException('Failed to create metric. Buckets must be a list.')
        if buckets is not None and self._kind != self.HISTOGRAM:
            raise TritonModelException('Failed to create metric. Unexpected buckets found.')
        if buckets is None and self._kind == self.HISTOGRAM:
            raise TritonModelException('Failed to create metric. Missing required buckets.')
        for value in (labels or {}).values():
            if not isinstance(value, str):
                raise TritonModelException('Failed to create metric. Values of labels must be strings.')
        buckets = [float(b) for b in buckets or ()]
        document = struct.pack('<Q', self._number) + \
            pack_list([pack_text(str(k)) + pack_text(v) for k, v in (labels or {}).items()]) + \
            struct.pack(f'<I{len(buckets)}d', len(buckets), *buckets)
        number, = struct.unpack('<Q', side.ask(METRIC, document, 'Error when creating Metric'))
        metric = Metric._of(number, self._kind)
        self._made.append(weakref.ref(metric))
        return metric

    def __del__(self):
        if self._number is None:
            return
        for metric in self._made:
            if metric := metric():
                metric._number = None
        side.tell(FORGET_FAMILY, self._number)


@public
class Metric:
    """Made by MetricFamily.Metric()."""

    def __init__(self, *_, **__):
        raise TypeError('a Metric is made by MetricFamily.Metric()')

    @classmethod
    def _of(cls, number, kind):
        metric = cls.__new__(cls)
        metric._number, metric._kind = number, kind
        return metric

    def increment(self, value):
        value = self._check('increment', value, MetricKind.COUNTER, MetricKind.GAUGE)
        if self._kind == MetricKind.COUNTER and value < 0:
            raise TritonModelException('Failed to increment metric value: a COUNTER does not take negative values')
        side.count(METRIC_INCREMENT, self._number, value)

    def set(self, value):
        side.count(METRIC_SET, self._number, self._check('set', value, MetricKind.GAUGE))

    def observe(self, value):
        side.count(METRIC_OBSERVE, self._number, self._check('observe', value, MetricKind.HISTOGRAM))

    def value(self):
        self._check('get', 0, MetricKind.COUNTER, MetricKind.GAUGE)
        return struct.unpack('<d', side.ask(METRIC_VALUE, struct.pack('<Q', self._number), 'Failed to get metric value'))[0]

    def _check(self, verb, value, *kinds):
        if self._number is None:
            raise TritonModelException("Invalid metric operation as the corresponding 'MetricFamily' has been deleted. The "
                                       "'MetricFamily' object should be deleted AFTER its corresponding 'Metric' objects have "
                                       'been deleted.')
        if self._kind not in kinds:
            raise TritonModelException(f'Failed to {verb} metric value: not supported by a {self._kind.name}')
        value = float(value)
        if self._kind != MetricKind.GAUGE and not math.isfinite(value):
            raise TritonModelException(f'Failed to {verb} metric value: a {self._kind.name} does not take {value}')
        return value


@public
def load_model(model_name, config='', files=None):
    """Returns when the model is loaded. What clients may load by the repository's API, models may."""
    if files is not None and not isinstance(files, dict):
        raise TritonModelException(f"failed to load model '{model_name}', files should be a dictionary of file paths and file "
                                   'contents')
    parameters = [(b'config', str(config).encode())] if config else []
    parameters += [(str(path).encode(), bytes(content)) for path, content in (files or {}).items()]
    document = b''.join([pack_text(str(model_name)), struct.pack('<I', len(parameters))] +
                        [struct.pack('<I', len(part)) + part for pair in parameters for part in pair])
    side.ask(LOAD_MODEL, document, 'Failed to load model', LOAD_PATIENCE)


@public
def unload_model(model_name, unload_dependents=False):
    side.ask(UNLOAD_MODEL, pack_text(str(model_name)) + struct.pack('<B', bool(unload_dependents)), 'Failed to unload model',
             LOAD_PATIENCE)


@public
def is_model_ready(model_name, model_version=''):
    version = str(model_version)
    if version and not version.isdecimal():
        raise TritonModelException(f"failed to get model version from specified version string '{version}', version should be an "
                                   'integral value > 0')
    return side.ask(MODEL_READY, pack_text(str(model_name)) + pack_text(version), 'Failed to check model readiness') != b'\0'


pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END = 1, 2
pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
pb_utils.TRITONSERVER_REQUEST_RELEASE_ALL, pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 1, 2
sys.modules['triton_python_backend_utils'] = sys.modules['c_python_backend_utils'] = pb_utils

# ---- the worker ----

MESSAGE = struct.Struct('<IIQQQ')
INPUT_REGION, OUTPUT_REGION, LOAD, RUN, CANCEL, STOP, TAKEN, CREDIT, REPLY_REGION, EXECUTED, NO_ROOM = range(1, 12)
LOOK_S = 5  # after which senders that nobody closes are looked for
LOST, LOOK = 0, -1  # no messages: orders of this process to itself
READY, FAILED, ANSWERS, GROW, RETURNED, ANSWER, EXEC, TOOK, FORGET, WORKS = range(33, 43)
ERROR, TENSORS, END, TENSORS_AND_END, ONE_ERROR = range(5)
KEPT = 1
MANY = 2
COUNTED = 4
MORE = 8
LARGE = 16
SAYS_READY = 32
METRIC_FAMILY, METRIC, METRIC_VALUE, METRIC_INCREMENT, METRIC_SET, METRIC_OBSERVE, FORGET_FAMILY, LOAD_MODEL, UNLOAD_MODEL, \
    MODEL_READY, READINESS = range(64, 75)
IS_READY = 97
LONGEST_PART = 32 << 10
PATIENCE, LOAD_PATIENCE = 30, 600  # seconds
WINDOW, LARGE_PART = 16, 64 << 10
MOST_LATER = 1024  # credit's worth of answers that wait for it, where whoever sends them should not
# Then a client has this long to take the next answer: seconds, and bytes of it a second.
NEXT_ANSWER, LEAST_RATE = 0.25, 16 << 20
UNIT = '\x1f'
ITERATIVE = UNIT + 'iterative_sequence'  # a parameter that configurations cannot have: the server's word (protocol.h)
SEQUENCE = ('sequence_id', 'sequence_start', 'sequence_end', 'priority', 'timeout')  # parameters of the protocol


class NoRoom(TritonModelException):
    """The server has no memory to share. What it says itself replaces this text."""

    def __init__(self):
        super().__init__('there is not enough memory for the tensors')


class Shortage(TritonError):
    GRPC_CODE = 8  # RESOURCE_EXHAUSTED, for which Triton has no name

    def __init__(self, message):
        super().__init__(message, TritonError.UNAVAILABLE)


class Document:
    """Reads one, from its beginning."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def unpack(self, form):
        values = struct.unpack_from(form, self.data, self.at)
        self.at += struct.calcsize(form)
        return values

    def number(self, form='<I'):
        return self.unpack(form)[0]

    def text(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size:self.at].decode(errors='surrogateescape')

    def shape(self):
        return self.unpack(f'<{self.number()}q')

    def spec(self):
        name, (number, optional) = self.text(), self.unpack('<BB')
        return {'name': name, 'data_type': 'TYPE_' + TYPES[number], 'dims': list(self.shape()), 'optional': bool(optional)}

    def tensor(self, region):
        name, kind, shape, (at, size) = self.text(), self.number('<B'), self.shape(), self.unpack('<QQ')
        return Tensor._of(name, kind, shape, region, at, size)

    def parameters(self):
        values = {}
        for _ in range(self.number()):
            name, kind = self.text(), self.number('<B')
            values[name] = (bool(self.number('<Q')) if kind == 0 else self.number('<q') if kind == 1 else
                            self.number('<Q') if kind == 2 else self.number('<d') if kind == 3 else self.text())
        return values


def pack_text(text):
    try:
        data = text.encode(errors='surrogateescape')
    except UnicodeEncodeError:
        data = text.encode(errors='replace')
    return struct.pack('<I', len(data)) + data


def pack_value(value):
    if isinstance(value, bool):
        return struct.pack('<BQ', 0, value)
    if isinstance(value, int):
        return struct.pack('<Bq', 1, value) if value < 1 << 63 else struct.pack('<BQ', 2, value)
    if isinstance(value, float):
        return struct.pack('<Bd', 3, value)
    return b'\x04' + pack_text(str(value))


def pack_list(items):
    return struct.pack('<I', len(items)) + b''.join(items)


def pack_spec(tensor):
    dims = tensor['dims']
    return pack_text(tensor['name']) + struct.pack(f'<BBI{len(dims)}q', TYPES.index(tensor['data_type'].removeprefix('TYPE_')),
                                                   bool(tensor.get('optional')), len(dims), *dims)


def remember(known, key, value):
    """A cache of a few things: what comes again and again comes often."""
    if len(known) >= 64:
        known.clear()
    known[key] = value


def cost_of(response):
    """About what an answer will cost of the credit."""
    tensors = response._tensors if response else ()
    return 1 + sum(t._about_bytes() for t in tensors) // LARGE_PART


def references(array):
    return sys.getrefcount(array)


class Side:
    """What is asked of the server apart from batches, on a socket of its own: by any thread of the model's, at any time."""

    COUNT = struct.Struct('<IIQQQd')

    def __init__(self):
        self.socket = socket.socket(fileno=5)
        os.set_inheritable(5, False)
        self.changed = threading.Condition()  # over all of this
        self.asked, self.waiting, self.replies, self.reading = 0, set(), {}, False
        self.sending = threading.Lock()  # parts of a request follow each other
        self.counted = 0  # COUNTED: something that the server may not have taken
        self.questions = queue.SimpleQueue()  # numbers of IS_READY

    def tell(self, kind, number):
        self.socket.send(MESSAGE.pack(kind, 0, number, 0, 0))

    def count(self, kind, number, value):
        self.counted = COUNTED
        self.socket.send(self.COUNT.pack(kind, 0, number, 0, 8, value))

    def take_counted(self):
        counted, self.counted = self.counted, 0
        return counted

    def ask(self, kind, document, failure, patience=PATIENCE):
        """The reply's document. Raises what the server says, behind `failure`, and where it says nothing in time."""
        with self.changed:
            self.asked += 1
            number = self.asked
            self.waiting.add(number)
        try:
            self.send(kind, number, document)
            reply = self.wait(number, time.monotonic() + patience)
        finally:
            with self.changed:
                self.waiting.discard(number)
                self.replies.pop(number, None)
        if reply is None:
            raise TritonModelException(f'{failure}: the server did not reply within {patience} s')
        code, = struct.unpack_from('<I', reply)
        if code:
            raise TritonModelException(f"{failure}: {reply[8:].decode(errors='replace')}")
        return reply[4:]

    def send(self, kind, number, document):
        if kind != LOAD_MODEL and len(document) > LONGEST_PART:
            raise TritonModelException('names and labels are too long')
        with self.sending:
            for at in range(0, len(document), LONGEST_PART):
                part = document[at:at + LONGEST_PART]
                more = MORE if at + len(part) < len(document) else 0
                self.socket.sendmsg([MESSAGE.pack(kind, more, number, 0, len(part)), part])

    def wait(self, number, until):
        """One of the threads that wait reads for all of them."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: number in self.replies or not self.reading, max(0, until - time.monotonic()))
                if number in self.replies or self.reading or time.monotonic() >= until:
                    return self.replies.get(number)
                self.reading = True
            self.read(until)

    def read(self, until=None):
        """Takes one packet, for whoever it is for. On the thread that has set `reading`."""
        data = b''
        try:
            if select.select([self.socket], [], [], until and max(0, until - time.monotonic()))[0]:
                data = self.socket.recv(MESSAGE.size + LONGEST_PART)
                if not data:
                    os._exit(0)  # the server has ended
        finally:
            with self.changed:
                self.reading = False
                kind, _, number, _, _ = MESSAGE.unpack_from(data) if data else (0,) * 5
                if kind == IS_READY:
                    self.questions.put(number)
                elif number in self.waiting:
                    self.replies[number] = data[MESSAGE.size:]
                self.changed.notify_all()

    def answer_questions(self, is_ready):
        """From here on one thread reads whatever comes, and another one calls is_ready(): nobody waits for that."""
        threading.Thread(target=self.read_on, daemon=True).start()
        threading.Thread(target=self.say_readiness, args=(is_ready,), daemon=True).start()

    def read_on(self):
        while True:
            with self.changed:
                self.changed.wait_for(lambda: not self.reading)
                self.reading = True
            self.read()

    def say_readiness(self, is_ready):
        while True:
            number = self.questions.get()
            try:
                why_not = self.why_not_ready(is_ready)
            except BaseException as e:
                why_not = f'is_ready() raised {type(e).__name__}'
                with contextlib.suppress(BaseException):  # its text is the model's code, too
                    why_not = f'{why_not}: {e}'
            self.send(READINESS, number, struct.pack('<B', not why_not) + pack_text(why_not[:500]))

    @staticmethod
    def why_not_ready(is_ready):
        ready = is_ready()
        if inspect.isawaitable(ready):  # in the loop of the model's other coroutines, where there is one that runs
            ready = asyncio.run_coroutine_threadsafe(ready, worker.loop).result() if worker.loop_thread else asyncio.run(ready)
        if not isinstance(ready, (bool, np.bool_)):
            return f'is_ready() must return a bool, not {type(ready).__name__}'
        return '' if ready else 'is_ready() has returned False'


class Sender:
    """InferenceResponseSender of one request."""

    def __init__(self, number, outputs):
        self.number, self.outputs = number, outputs
        self.credit, self.over, self.responses = WINDOW, False, []
        self.given_up = False  # its client does not read
        self.later, self.later_cost = collections.deque(), 0  # answers for which there was no room, and what they will cost

    def send(self, response=None, flags=0):
        if response is None and not flags:
            raise TritonModelException('send() takes a response, or the flag TRITONSERVER_RESPONSE_COMPLETE_FINAL')
        if response is not None and not isinstance(response, InferenceResponse):
            raise TritonModelException(f'send() takes an InferenceResponse, not {type(response).__name__}')
        if self.given_up:
            return
        if self.over:
            raise TritonModelException('the response sender has been closed: the final flag was sent')
        self.over = bool(flags & pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        worker.send_response(self, response)

    def is_cancelled(self):
        return self.given_up or worker.is_cancelled(self.number)


class Control:
    """A control input of an iterative model (kIterative in protocol.h)."""

    def __init__(self, name, kind, number, off, on):
        self.name, self.kind, self.type = name, kind, int(number)
        self.values = float(off), float(on)

    def tensor(self, request, shape):
        if self.kind == 'CORRID':
            value = request._correlation_id
            if self.type == BYTES:
                value = str(value).encode()
            elif NUMPY[self.type].itemsize == 4:
                value &= 0x7fffffff
        else:
            flags = {'START': request._flags & 1, 'END': request._flags & 2, 'READY': 1}
            value = self.values[bool(flags[self.kind])]
        return Tensor(self.name, np.full(shape, value, NUMPY[self.type]))

    def config(self):
        control = {'kind': f'CONTROL_SEQUENCE_{self.kind}', 'int32_false_true': [], 'fp32_false_true': [],
                   'bool_false_true': [], 'data_type': 'TYPE_INVALID'}
        if self.kind == 'CORRID':
            control['data_type'] = 'TYPE_' + TYPES[self.type]
        else:
            control[f'{TYPES[self.type].lower()}_false_true'] = [NUMPY[self.type].type(value).item() for value in self.values]
        return {'name': self.name, 'control': [control]}


class Worker:
    def __init__(self):
        self.socket = socket.socket(fileno=3)
        os.set_inheritable(3, False)
        self.writing = threading.Lock()        # over the output region
        self.changed = threading.Condition()   # over what the reading thread tells others
        self.reading = False                   # a thread that waits reads for all of them: see pump()
        self.backlog = collections.deque()
        self.cancelled, self.senders = set(), weakref.WeakValueDictionary()
        self.owing = {}      # senders that have answers for later, by number: nobody else may know them any more
        self.inside = set()  # numbers of a decoupled model's calls, from the order to run one to its last answer
        self.taken = self.grown = False
        self.input = self.output = self.inputs = None
        self.reply, self.replies, self.asked = None, {}, 0
        self.decoupled = False
        self.kinds = {}  # of outputs, by name
        self.parsed, self.layouts = {}, {}  # documents of requests as they were read, and of answers as they were laid out
        # A model of iterative sequences works on `slots` requests at once (0: requests run once), `most` of them in one
        # execute(). Where it is decoupled, `active` are those, `waiting` those of a kRun that come after them, which has
        # not been returned yet: `unreturned`. `working`: the server may count the time of an execute().
        self.slots = self.most = 0
        self.controls = []  # of an iterative model, Control
        self.active, self.waiting, self.unreturned, self.working = [], collections.deque(), None, False
        self.stepping = None  # the thread of a decoupled one's executions
        # Correlation ids: also those of other processes differ, which may make requests to the same model.
        self.ids = itertools.count((int.from_bytes(os.urandom(6), 'little') << 14) + 1)
        self.file = self.instance = ''
        self.pid = os.getpid()

    # messages

    def receive(self, flags=0):
        """The next message, with the region that comes with it taken; nothing where none is there and `flags` say not to
        wait."""
        try:
            data, control, _, _ = self.socket.recvmsg(MESSAGE.size, 64, flags)
        except BlockingIOError:
            return None
        if len(data) != MESSAGE.size:
            os._exit(0)  # the server has ended
        message = MESSAGE.unpack(data)
        if message[0] in (INPUT_REGION, OUTPUT_REGION, REPLY_REGION):
            fd, = struct.unpack('<i', control[0][2])
            region = mmap.mmap(fd, message[4])
            os.close(fd)
            self.take_region(message[0], region)
        elif message[0] == EXECUTED:
            reply, self.reply = self.reply, None  # who reads it keeps it
            if (replies := self.replies.get(message[2])) is not None:
                with self.changed:
                    replies.append((reply[message[3]:message[3] + message[4]], np.frombuffer(reply, np.uint8)))
                    self.changed.notify_all()
        return message

    def take_region(self, kind, region):
        if kind == REPLY_REGION:
            self.reply = region
        elif kind == INPUT_REGION:
            self.input = region
            self.inputs = np.frombuffer(region, dtype=np.uint8) if np else None
            self.unused = references(self.inputs)
        else:
            with self.changed:
                self.output, self.grown = region, True
                self.changed.notify_all()

    def send(self, kind, flags=0, number=0, offset=0, size=0):
        self.socket.send(MESSAGE.pack(kind, flags, number, offset, size))

    def make_room(self, size):
        """The output region has at least so many bytes."""
        if len(self.output) >= size:
            return
        self.grown = None
        self.send(GROW, size=size)
        self.pump(lambda: self.grown is not None)
        if not self.grown:
            raise NoRoom

    def keep(self, message):
        with self.changed:
            if message[0] == CANCEL:
                self.cancelled.add(message[2])
            elif message[0] == TAKEN:
                self.taken = True
            elif message[0] == NO_ROOM:
                self.grown = False
            elif message[0] in (LOAD, RUN, STOP):
                self.backlog.append(message)
            self.changed.notify_all()

    def is_cancelled(self, number):
        if not self.decoupled:
            with self.changed:  # whoever waits reads
                while not self.reading and (message := self.receive(socket.MSG_DONTWAIT)) is not None:
                    self.keep(message)
        return number in self.cancelled

    # answers

    def put_document(self, document, at=0):
        self.make_room(at + len(document))
        self.output[at:at + len(document)] = document
        return dict(offset=at, size=len(document))

    def lay_out(self, responses):
        """(number, kind, response, names of the outputs that are wanted) -> (document, [(offset, data)], end of the data)."""
        parts, data, at = [struct.pack('<I', len(responses))], [], 0
        for number, kind, response, wanted in responses:
            if kind == END or (response is None and kind != ERROR):
                parts.append(struct.pack('<QB', number, END))
                continue
            if response.has_error():
                error = response.error()
                code = TritonError.GRPC[error.code()] if isinstance(error, TritonError) and 0 <= error.code() < 8 else 13
                code = getattr(error, 'GRPC_CODE', code)
                kind = ONE_ERROR if self.decoupled and kind == TENSORS else ERROR
                parts.append(struct.pack('<QBI', number, kind, code) + pack_text(str(error)))
                continue
            parts.append(struct.pack('<QB', number, kind))
            parts.append(pack_list([pack_text(str(k)) + pack_value(v) for k, v in response._parameters.items()]))
            tensors = [self.as_configured(t) for t in response._tensors if not wanted or t._name in wanted]
            described, more, at = self.lay_out_tensors(tensors, at)
            parts.append(described)
            data += more
        return b''.join(parts), data, at

    def as_configured(self, tensor):
        """Numbers in the output's own type, where that has all of them: numpy's own are INT64 (np.array([0])) and FP64
        (np.array([0.5])). What has no elements is of any type: numpy's own is FP64 (np.array([]))."""
        kind, array = self.kinds.get(tensor._name), tensor._array
        if kind in (None, tensor._number, BF16) or array is None:
            return tensor
        if array.size == 0:
            return Tensor(tensor._name, np.empty(array.shape, NUMPY[kind]))
        if array.dtype.kind == 'f' and NUMPY[kind].kind == 'f':
            with np.errstate(over='ignore'):
                cast = array.astype(NUMPY[kind])
            return Tensor(tensor._name, cast) if np.array_equal(cast.astype(array.dtype), array, equal_nan=True) else tensor
        if array.dtype.kind not in 'iu' or NUMPY[kind].kind not in 'iu':
            return tensor
        cast = array.astype(NUMPY[kind])
        same = np.array_equal(cast.astype(array.dtype), array) and np.array_equal(cast < 0, array < 0)
        return Tensor(tensor._name, cast) if same else tensor

    @staticmethod
    def lay_out_tensors(tensors, at):
        """The list for a document, what is to be written where, and the end of that."""
        parts, data = [struct.pack('<I', len(tensors))], []
        for tensor in tensors:
            content, name, shape = tensor._bytes(), tensor._name.encode(), tensor._shape
            size = content.nbytes if isinstance(content, np.ndarray) else len(content)
            parts.append(struct.pack(f'<I{len(name)}sBI{len(shape)}qQQ', len(name), name, tensor._number, len(shape), *shape, at,
                                     size))
            if size:
                data.append((at, at + size, content))
            at = (at + size + 63) & ~63
        return b''.join(parts), data, at

    def write(self, responses):
        key, tensors = self.layout_of(responses)
        if known := self.layouts.get(key):
            document, places, end = known
            return self.write_document(document, [(*place, t._bytes()) for place, t in zip(places, tensors)], end)
        document, data, end = self.lay_out(responses)
        if key and len(data) == len(tensors):
            remember(self.layouts, key, (document, [place[:2] for place in data], end))
        return self.write_document(document, data, end)

    def layout_of(self, responses):
        """What the document and the places of the answers follow from, and their tensors; None where they are laid out one by
        one."""
        key, all_tensors = [], []
        for number, kind, response, wanted in responses:
            if kind != TENSORS or response is None or response._error is not None or response._parameters:
                return None, ()
            tensors = [self.as_configured(t) for t in response._tensors if not wanted or t._name in wanted]
            if any(t._number == BYTES for t in tensors):
                return None, ()
            key.append((number, tuple((t._name, t._number, t._shape) for t in tensors)))
            all_tensors += tensors
        return tuple(key), all_tensors

    def write_document(self, document, data, end):
        self.make_room(end + len(document))
        for begin, after, content in data:
            self.output[begin:after] = content
        return self.put_document(document, end)

    def send_response(self, sender, response):
        if not self.decoupled:
            if response is not None:
                with self.changed:
                    sender.responses.append(response)
            with self.changed:
                self.changed.notify_all()
            self.wake_loop()
            return
        kind = END if response is None else TENSORS_AND_END if sender.over else TENSORS
        with self.changed:
            if self.never_waits(threading.get_ident()):
                cost = cost_of(response)
                sender.later.append((kind, response, cost))
                sender.later_cost += cost
                self.owing[sender.number] = sender
            else:
                self.changed.wait_for(lambda: not sender.later and self.has_room(sender, kind))
                sender.credit -= kind != END
        if sender.later:
            self.send_later(sender)
        else:
            self.write_answer(sender, kind, response)
        if sender.later_cost > MOST_LATER:
            self.wait_for_reader(sender)

    def wait_for_reader(self, sender):
        """All coroutines, or sequences, wait for one client, but only for one that reads fast. It is no time of process_timeout."""
        if self.working:
            self.send(WORKS, number=0)
        while sender.later_cost > MOST_LATER:
            with self.changed:
                patience = NEXT_ANSWER + sender.later[0][2] * LARGE_PART / LEAST_RATE
                reads = self.changed.wait_for(lambda: self.has_room(sender), patience)
            if not reads:
                self.give_up(sender)
                break
            self.send_later(sender)
        if self.working:
            self.send(WORKS, number=1)

    def give_up(self, sender):
        """The request ends with an error, and what its model still sends is dropped."""
        sender.given_up = sender.over = True
        with self.changed:
            sender.later.clear()
            sender.later_cost = 0
            sender.credit -= 1
        self.owing.pop(sender.number, None)
        self.write_answer(sender, TENSORS_AND_END, InferenceResponse(error=Shortage(
            'the client reads its answers too slowly: 64 MiB of them wait, and others wait for that')))

    def never_waits(self, thread):
        """Where all coroutines would wait, or all sequences, for a client that does not read."""
        return thread == self.loop_thread or (thread == self.stepping and not self.loop)

    def has_room(self, sender, kind=None):
        return (kind or sender.later[0][0]) == END or sender.credit > 0 or sender.number in self.cancelled

    def send_later(self, sender):
        """What there is room for now. On the loop's thread; where there is no loop, on that of iterative executions."""
        while sender.later and self.has_room(sender):
            with self.changed:
                kind, response, cost = sender.later.popleft()
                sender.later_cost -= cost
                sender.credit -= kind != END
                self.changed.notify_all()
            self.write_answer(sender, kind, response)
        if not sender.later:
            self.owing.pop(sender.number, None)
            if self.slots and self.loop:
                self.orders.put((LOOK, 0, sender.number, 0, 0))  # its request may be executed again

    def write_answer(self, sender, kind, response):
        """Where it cannot be written, an error in its place: else the request would have no end, and its credit be used up."""
        try:
            self.put_answer(sender, kind, response)
        except Exception as e:
            self.put_answer(sender, kind, self.failure(e))
        if kind != TENSORS:
            with self.changed:
                sender.later.clear()
                sender.later_cost = 0
                self.senders.pop(sender.number, None)
                self.inside.discard(sender.number)
                self.cancelled.discard(sender.number)

    def put_answer(self, sender, kind, response):
        with self.writing:
            if sender.number not in self.cancelled:
                place = self.write([(sender.number, kind, response, sender.outputs)])
                self.taken = False
                beyond_one = (place['offset'] + place['size']) // LARGE_PART  # of the credit; it may leave less than none
                with self.changed:
                    sender.credit -= beyond_one
                self.send(ANSWER, side.take_counted() | (LARGE if beyond_one else 0), **place)
                self.pump(lambda: self.taken)

    # requests to other models

    def ask(self, request, flags=0):
        """Sends it; returns its number, for wait_for()."""
        if os.getpid() != self.pid:  # its replies would come to both processes
            raise TritonModelException('a process that the model has forked makes no requests to other models; threads do')
        model = request._model.decode() if isinstance(request._model, bytes) else str(request._model)
        parts = [pack_text(model), pack_text(request._version), pack_text(request._id),
                 pack_list([pack_text(str(k)) + pack_value(v) for k, v in request._sent_parameters().items()]),
                 pack_list([pack_text(name if isinstance(name, str) else name.decode()) for name in request._outputs])]
        tensors, data, end = self.lay_out_tensors(request._inputs, 0)
        with self.writing:
            self.asked += 1
            number = self.asked
            place = self.write_document(b''.join(parts) + tensors, data, end)
            self.taken = False
            self.replies[number] = collections.deque()
            self.send(EXEC, flags, number, **place)
            self.pump(lambda: self.taken)
        return number

    def wait_for(self, number):
        response, _ = self.next_reply(number)
        self.replies.pop(number, None)
        return response

    def next_reply(self, number):
        """The next answer to a request, and whether no other follows; the end is an answer without tensors."""
        self.pump(lambda: self.replies[number])
        document, region = self.replies[number].popleft()
        d = Document(document)
        _, _, kind = d.unpack('<IQB')
        if kind != TENSORS:
            del self.replies[number]
        if kind == END:
            return InferenceResponse(), True
        if kind == ERROR:
            code, text = d.number(), d.text()
            if code == Shortage.GRPC_CODE:
                return InferenceResponse(error=Shortage(text)), True
            return InferenceResponse(error=TritonError(text, TritonError.GRPC.index(code) if code in TritonError.GRPC
                                                       else TritonError.INTERNAL)), True
        parameters = d.parameters()
        return InferenceResponse([d.tensor(region) for _ in range(d.number())], parameters=parameters), kind != TENSORS

    def forget(self, number):
        if self.replies.pop(number, None) is not None:
            self.send(FORGET, number=number)

    def pump(self, done):
        """Waits until it is so. One of the threads that wait reads for all of them, unless there is a thread for that."""
        while True:
            with self.changed:
                self.changed.wait_for(lambda: done() or not (self.reading or self.decoupled))
                if done():
                    return
                self.reading = True
            try:
                self.keep(self.receive())
            finally:
                with self.changed:
                    self.reading = False
                    self.changed.notify_all()

    def sender(self, request):
        sender = Sender(request._number, request._outputs)
        if self.decoupled:
            self.senders[sender.number] = sender
            # SimpleQueue.put() may be called wherever objects are collected.
            weakref.finalize(sender, self.orders.put, (LOST, 0, sender.number, 0, 0)).atexit = False
        return sender

    # the model

    def load(self, data):
        if np is None:
            raise TritonModelException(f'engine "python" needs numpy, which {sys.executable} has not; '
                                       'engines.python.interpreter names another one')
        d = Document(data)
        if d.number() != 1:
            raise TritonModelException('the server speaks another version of the protocol')
        name, version, self.file, self.instance = d.text(), d.text(), d.text(), d.text()
        max_batch, decoupled, dynamic = d.unpack('<IBB')
        parameters = {}
        for _ in range(d.number()):
            key = d.text()
            parameters[key] = {'string_value': d.text()}
        inputs = [d.spec() for _ in range(d.number())]
        outputs = [d.spec() for _ in range(d.number())]
        for tensor in inputs:
            tensor.update(format='FORMAT_NONE', is_shape_tensor=False, allow_ragged_batch=False)
        for tensor in outputs:
            tensor.update(label_filename='', is_shape_tensor=False)
            del tensor['optional']
        config = {'name': name, 'platform': '', 'backend': 'python', 'version_policy': {'latest': {'num_versions': 1}},
                  'max_batch_size': max_batch, 'input': inputs, 'output': outputs, 'batch_input': [], 'batch_output': [],
                  'instance_group': [{'name': f'{name}_0', 'kind': 'KIND_CPU', 'count': 1, 'gpus': []}],
                  'default_model_filename': os.path.basename(self.file), 'parameters': parameters, 'model_warmup': [],
                  'model_transaction_policy': {'decoupled': bool(decoupled)}}
        iterative = parameters.pop(ITERATIVE, None)
        if iterative:
            slots, *controls = iterative['string_value'].split(UNIT)
            self.controls = [Control(*controls[at:at + 5]) for at in range(0, len(controls), 5)]
            config['sequence_batching'] = {'iterative_sequence': True, 'control_input': [c.config() for c in self.controls]}
        elif dynamic:
            config['dynamic_batching'] = {}
        model_class = self.import_model()
        config = self.complete(model_class, config)
        self.decoupled = using_decoupled_model_transaction_policy(config)
        self.kinds = {t['name']: TYPES.index(t['data_type'].removeprefix('TYPE_')) for t in config['output']}
        if iterative:
            self.most, self.batched = max(1, config['max_batch_size']), config['max_batch_size'] > 0
            self.slots = int(slots) or self.most
        self.model = model_class()
        if hasattr(self.model, 'initialize'):
            self.model.initialize({
                'model_config': json.dumps(config), 'model_instance_kind': 'CPU', 'model_instance_name': self.instance,
                'model_instance_device_id': '0', 'model_repository': os.path.dirname(os.path.dirname(self.file)),
                'model_version': version, 'model_name': name})
        return struct.pack('<IBB', config['max_batch_size'], self.decoupled,
                           dynamic if iterative else 'dynamic_batching' in config) + \
            pack_list([pack_spec(t) for t in config['input']]) + pack_list([pack_spec(t) for t in config['output']])

    def import_model(self):
        folder = os.path.dirname(self.file)
        sys.path[0] = folder  # in place of the script's, which is /proc/self/fd
        sys.argv = [self.file]
        spec = importlib.util.spec_from_file_location(os.path.splitext(os.path.basename(self.file))[0], self.file)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        sys.dont_write_bytecode = True  # the model's folder is not the worker's to write to
        spec.loader.exec_module(module)
        if not hasattr(module, 'TritonPythonModel'):
            raise TritonModelException('model.py has no class TritonPythonModel')
        if not callable(getattr(module.TritonPythonModel, 'execute', None)):
            raise TritonModelException("class TritonPythonModel has no function 'execute'")
        return module.TritonPythonModel

    @staticmethod
    def complete(model_class, config):
        if not hasattr(model_class, 'auto_complete_config'):
            return config
        config.pop('model_transaction_policy') if not config['model_transaction_policy']['decoupled'] else None
        completed = model_class.auto_complete_config(ModelConfig(json.dumps(config)))
        if not isinstance(completed, ModelConfig):
            raise TritonModelException('auto_complete_config must return its ModelConfig')
        config = completed.as_dict()
        config.setdefault('model_transaction_policy', {'decoupled': False})
        return config

    def requests(self, offset, size):
        document = self.input[offset:offset + size]
        parsed = self.parsed.get(document)
        if parsed is None:
            parsed = self.parse(document)
            if size <= 4096:
                remember(self.parsed, document, parsed)
        return [InferenceRequest._of(p, self.inputs, self.kinds) for p in parsed]

    @staticmethod
    def parse(document):
        d = Document(document)
        parsed = []
        for _ in range(d.number()):
            number, name = d.number('<Q'), d.text()
            _, timeout = d.unpack('<IQ')
            parameters = d.parameters()
            outputs = [d.text() for _ in range(d.number())]
            tensors = [(d.text(), d.number('<B'), d.shape(), *d.unpack('<QQ')) for _ in range(d.number())]
            parsed.append((number, name, timeout, parameters, outputs, tensors))
        return parsed

    loop = loop_thread = woken = None

    def start(self, coroutine, senders):
        """A decoupled model's coroutine goes on while other requests begin: in a loop that is a thread's own. Where it may
        want its requests again, it is waited for."""
        if self.loop is None:
            self.loop = asyncio.new_event_loop()
            thread = threading.Thread(target=self.run_loop, daemon=True)
            thread.start()
            self.loop_thread = thread.ident
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        if self.slots:
            self.ended(future, senders)  # when it is
        else:
            future.add_done_callback(lambda future: self.ended(future, senders))

    def run_loop(self):
        try:
            self.loop.run_forever()
        except BaseException:  # a coroutine ends the process
            Logger.log_error(traceback.format_exc())
        os._exit(1)

    def ended(self, future, senders):
        try:
            self.check_result(future.result())
        except Exception as e:
            self.fail(senders, e)

    @staticmethod
    def check_result(result):
        if result is not None:
            raise TritonModelException('execute() of a decoupled model returns None, and answers with response senders')

    def fail(self, senders, e):
        wrong = self.failure(e)  # which is in the log then, whether or not the requests can be told
        for sender in senders:
            if not sender.over:
                sender.over = True
                self.send_response(sender, wrong)

    def execute(self, requests):
        result = self.model.execute(requests)
        if inspect.iscoroutine(result):
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
            result = self.run_coroutine(result)
        return result

    def run_coroutine(self, coroutine):
        """Its first step without the loop, whose turns cost more than most models do: many never wait."""
        ready = getattr(self.loop, '_ready', None)
        if not isinstance(ready, collections.deque) or ready:
            return self.loop.run_until_complete(coroutine)
        task = self.loop.create_task(coroutine)
        if len(ready) == 1:
            hooks = sys.get_asyncgen_hooks()
            sys.set_asyncgen_hooks(self.loop._asyncgen_firstiter_hook, self.loop._asyncgen_finalizer_hook)
            asyncio._set_running_loop(self.loop)
            try:
                ready.popleft()._run()
            finally:
                asyncio._set_running_loop(None)
                sys.set_asyncgen_hooks(*hooks)
            if task.done() and not ready:
                return task.result()
        return self.loop.run_until_complete(task)

    def failure(self, e):
        if isinstance(e, NoRoom):
            return InferenceResponse(error=Shortage(str(e)))
        Logger.log_error(traceback.format_exc())
        kind = '' if isinstance(e, TritonModelException) else f'{type(e).__name__}: '
        return InferenceResponse(error=TritonError(
            f"Failed to process the request(s) for model instance '{self.instance}', message: {kind}{e}"))

    def responses(self, requests):
        """One response for each request. Those that the model wants again are in its next execute()."""
        if not self.slots:
            return self.responses_of_one(requests)
        made = {r._number: self.begin_sequence(r) for r in requests}
        while left := [r for r in requests if made[r._number] is None]:
            made.update({r._number: response for r, response in zip(left, self.responses_of_one(left))})
            for request in left:
                if request._again and request.is_cancelled():
                    made[request._number] = InferenceResponse(error=TritonError('cancelled', TritonError.CANCELLED))
                self.again(request)
        return [made[r._number] for r in requests]

    def begin_sequence(self, request):
        """Each request to an iterative model is a sequence of its own, whatever its client calls it: what the model keeps by
        the correlation id is of this request alone. What is wrong with it, or None."""
        start, end = pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START, pb_utils.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END
        said = request._correlation_id
        if said and not request._flags & start:
            return InferenceResponse(error=TritonError(
                f'inference request for sequence {said} must specify the START flag: to a model of iterative sequences each '
                'request is one', TritonError.INVALID_ARG))
        request._correlation_id, request._flags = next(self.ids), start | (request._flags & end if said else 0)
        self.add_controls(request)
        return None

    def add_controls(self, request):
        """The control inputs, as its next execute() is to see them."""
        if not self.controls:
            return
        names = {control.name for control in self.controls}
        own = [tensor for tensor in request._inputs if tensor._name not in names]
        shape = (own[0]._shape[0] if own and own[0]._shape else 1, 1) if self.batched else (1,)
        request._inputs = own + [control.tensor(request, shape) for control in self.controls]

    def again(self, request):
        """It is in another execute(), which is not its first."""
        request._again, request._flags = False, 0
        self.add_controls(request)

    def responses_of_one(self, requests):
        """One response for each request of an execute(), whatever the model does."""
        returned, wrong = [None] * len(requests), None
        before = asyncio.all_tasks(self.loop) if self.loop else set()
        try:
            result = self.execute(requests)
            if result is not None and (not isinstance(result, (list, tuple)) or len(result) != len(requests)):
                raise TritonModelException('execute() must return a list of as many responses as there are requests')
            returned = returned if result is None else result
            pending = [r for r, response in zip(requests, returned) if response is None and not r._again]
            if pending:
                self.wait_for_senders(pending, before)
        except Exception as e:
            wrong = self.failure(e)
            for request in requests:
                request._again = False
        return [self.response(*pair, wrong) for pair in zip(requests, returned)]

    def response(self, request, returned, wrong):
        """The first that the request's sender has sent, or else the one that execute() has returned."""
        if request._again and returned is None:
            return None
        if request._sender and request._sender.responses:
            return request._sender.responses[0]
        if wrong and (returned is None or not isinstance(returned, InferenceResponse)):
            return wrong
        try:
            if request._again:
                request._again = False
                raise TritonModelException('Expected a None object in the execute function return list for rescheduled request')
            if returned is None:
                raise TritonModelException('execute() returned no response to a request, and its response sender sent none')
            if not isinstance(returned, InferenceResponse):
                raise TritonModelException(f'execute() must return InferenceResponses, not {type(returned).__name__}')
            return returned
        except TritonModelException as e:
            return self.failure(e)

    def wait_for_senders(self, requests, before):
        """Returns when the sender of each has a response or is closed. Tasks that a coroutine has started go on meanwhile;
        raises what one of them raised where no other is left to answer. A request whose sender nobody has taken waits for
        no task of `before`, which were there before this execute() and may never end."""
        def unanswered():
            return [r for r in requests if not (r._sender and (r._sender.responses or r._sender.over))]

        if self.loop and unanswered():
            self.loop.run_until_complete(self.run_tasks_for(unanswered, before))
        requests = [r for r in requests if r._sender]
        with self.changed:
            self.changed.wait_for(lambda: not unanswered())

    async def run_tasks_for(self, unanswered, before):
        wrong = None
        while True:
            woken = self.woken = self.loop.create_future()  # before the check: another thread may send
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            left = unanswered()
            if not left:
                return
            if not (tasks if any(r._sender for r in left) else tasks - before):
                break
            ended, _ = await asyncio.wait({woken, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            for task in ended - {woken}:
                wrong = task.exception() if not task.cancelled() and task.exception() else wrong
        if wrong:
            raise wrong

    def wake_loop(self):
        if self.woken:
            self.loop.call_soon_threadsafe(lambda future: future.done() or future.set_result(None), self.woken)

    def kept(self):
        return KEPT if references(self.inputs) > self.unused else 0

    def flags(self):
        return self.kept() | side.take_counted()

    def run(self, number, offset, size):
        self.cancelled.clear()
        requests = self.requests(offset, size)
        answers = [(r._number, TENSORS, response, r._outputs) for r, response in zip(requests, self.responses(requests))]
        try:
            place = self.write(answers)
        except Exception as e:
            place = self.write_what_can_be(answers, e)
        del requests, answers
        self.send(ANSWERS, self.flags(), number, **place)

    def write_what_can_be(self, answers, wrong):
        """Errors in the place of those answers of a batch that are wrong; of all where there is no room for them."""
        try:
            if not isinstance(wrong, NoRoom):
                return self.write([self.checked(answer) for answer in answers])
        except Exception as e:
            wrong = e
        failure = self.failure(wrong)
        return self.write([(number, TENSORS, failure, ()) for number, _, _, _ in answers])

    def checked(self, answer):
        try:
            self.lay_out([answer])
            return answer
        except Exception as e:
            return answer[0], TENSORS, self.failure(e), ()

    def run_decoupled(self, number, parsed, _):
        requests = [InferenceRequest._of(p, self.inputs, self.kinds) for p in parsed]
        if self.slots:
            self.unreturned, self.working = number, True
            for request in requests:
                if wrong := self.begin_sequence(request):
                    sender = request.get_response_sender()
                    sender.over = True
                    self.send_response(sender, wrong)
                else:
                    self.waiting.append(request)
            return
        self.begin(requests)
        requests = None
        self.send(RETURNED, self.flags(), number)

    def begin(self, requests):
        """One execute() of a decoupled model."""
        senders = [r.get_response_sender() for r in requests]
        try:
            result = self.model.execute(requests)
            self.start(result, senders) if inspect.iscoroutine(result) else self.check_result(result)
        except Exception as e:
            self.fail(senders, e)

    # iterative sequences of a decoupled model

    def take_in(self):
        """Those that have come get slots. The server sends the next where one is free: until then it waits there, by the
        rules of its queue."""
        while self.waiting and len(self.active) < self.slots:
            self.active.append(self.waiting.popleft())
        if self.unreturned is not None and len(self.active) < self.slots:
            number, self.unreturned = self.unreturned, None
            self.send(RETURNED, self.flags(), number)

    def goes_on(self, request):
        """Whether anybody waits for it, and it has no end."""
        with self.changed:
            if request._number in self.cancelled and request._sender is None:  # else end_lost() sees to it
                self.inside.discard(request._number)
                self.cancelled.discard(request._number)
                return False
            return request._number not in self.cancelled and not (request._sender and request._sender.over)

    def may_answer(self, sender):
        """Not where a client has yet to read what was sent: it holds up itself alone."""
        with self.changed:
            return sender is None or (not sender.later and self.has_room(sender, TENSORS))

    def choose(self):
        """Takes those for the next execute() out of `active`: the ones that the model has worked on longest ago."""
        self.active = [r for r in self.active if self.goes_on(r)]
        self.take_in()
        chosen, others = [], []
        for request in self.active:
            (chosen if len(chosen) < self.most and self.may_answer(request._sender) else others).append(request)
        self.active = others
        return chosen

    def step(self, requests):
        """One execute(), whose time the server counts."""
        self.working = True
        self.send(WORKS, number=1)
        self.begin(requests)
        for request in requests:
            if request._again and not request._sender.over:
                self.active.append(request)
            self.again(request)

    def next_of_iterative(self):
        """The next order. Until there is one, the model works."""
        while (order := self.order_at_hand()) is None:
            if chosen := self.choose():
                self.step(chosen)
                chosen = None
                continue
            if self.working:
                self.working = False
                self.send(WORKS, number=0)
            return self.next_order()
        return order

    def look(self, number):
        """A client has read answers, or has left."""
        with self.changed:
            sender = self.senders.get(number)
        if sender and sender.later and not self.loop:
            self.send_later(sender)

    def end_lost(self, number):
        """The model has let a response sender go. Where that was not closed, nobody else can end the request."""
        with self.changed:
            if number not in self.inside:
                return
            if number in self.cancelled:  # and nobody waits for its end
                self.inside.discard(number)
                self.cancelled.discard(number)
                return
        try:
            raise TritonModelException('execute() has let go of a response sender that had not sent the final flag')
        except TritonModelException as e:
            self.fail([Sender(number, ())], e)

    # loops

    def main(self):
        sys.stdout.reconfigure(line_buffering=True)
        message = self.next_order()
        try:
            ready = self.load(self.input[message[3]:message[3] + message[4]])
        except BaseException as e:
            Logger.log_error(traceback.format_exc())
            decoupled, self.decoupled = self.decoupled, False
            self.send(FAILED, **self.put_document(f'{type(e).__name__}: {e}'.encode()[:4096]))
            self.decoupled = decoupled
            return
        message = None
        flags = SAYS_READY if callable(getattr(self.model, 'is_ready', None)) else 0
        if flags:
            side.answer_questions(self.model.is_ready)
        if self.decoupled:
            self.decoupled = False
            place = self.put_document(ready)
            self.decoupled = True
            self.orders = queue.SimpleQueue()
            threading.Thread(target=self.read, daemon=True).start()
            self.send(READY, flags, **place)
        else:
            self.send(READY, flags, **self.put_document(ready))
        self.serve()
        if hasattr(self.model, 'finalize'):
            self.model.finalize()

    def next_order(self):
        while self.decoupled:
            try:
                return self.orders.get(timeout=LOOK_S if self.inside else None)
            except queue.Empty:
                gc.collect()  # a sender that was let go may be in a cycle, with an exception's frames for one
        self.pump(lambda: self.backlog)
        return self.backlog.popleft()

    def order_at_hand(self):
        try:
            return self.orders.get_nowait()
        except queue.Empty:
            return None

    def serve(self):
        iterative = self.slots and self.decoupled
        self.stepping = threading.get_ident() if iterative else None
        while True:
            kind, _, number, offset, size = self.next_of_iterative() if iterative else self.next_order()
            if kind == RUN:
                (self.run_decoupled if self.decoupled else self.run)(number, offset, size)
            elif kind == LOST:
                self.end_lost(number)
            elif kind == LOOK:
                self.look(number)
            elif kind == STOP:
                return

    def read(self):
        """Of a decoupled model: a thread that reads what the server says while the model runs."""
        while True:
            message = self.receive()
            kind, _, number, offset, size = message
            if kind == RUN:
                parsed = self.parse(self.input[offset:offset + size])
                with self.changed:
                    self.inside.update(request[0] for request in parsed)
                self.orders.put((RUN, 0, number, parsed, 0))
                continue
            if kind == STOP:
                self.orders.put(message)
                continue
            with self.changed:
                if kind == TAKEN:
                    self.taken = True
                elif kind == NO_ROOM:
                    self.grown = False
                elif kind == CANCEL and number in self.inside:  # it may not have begun
                    self.cancelled.add(number)
                sender = self.senders.get(number)
                if kind == CREDIT and sender:
                    sender.credit += size
                if sender and sender.later and self.loop:
                    self.loop.call_soon_threadsafe(self.send_later, sender)
                sender = None  # it may be the last one that knows it
                self.changed.notify_all()
            if self.slots and kind in (CREDIT, CANCEL):
                self.orders.put((LOOK, 0, number, 0, 0))


side = Side()
worker = Worker()
pb_utils.Logger = Logger
try:
    worker.main()
except BaseException:
    Logger.log_error(traceback.format_exc())
    sys.stdout.flush()
    os._exit(1)
sys.stdout.flush()
sys.stderr.flush()
os._exit(0)
