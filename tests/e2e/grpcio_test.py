"""python3-grpcio, sync and aio: every RPC of the Open Inference Protocol, streams, cancellation, deadlines, compression."""

import asyncio
import struct
import threading
import time
import unittest

import harness

import grpc  # noqa: E402

oip, oip_grpc = harness.stubs()('inference')
health, health_grpc = harness.stubs()('health')
BIG = [('grpc.max_receive_message_length', -1), ('grpc.max_send_message_length', -1)]


def floats(values):
    return struct.pack(f'<{len(values)}f', *values)


def request(model, name='INPUT0', values=range(16), id='', **parameters):
    r = oip.ModelInferRequest(model_name=model, id=id)
    values = [float(v) for v in values]
    r.inputs.add(name=name, datatype='FP32', shape=[len(values)])
    r.raw_input_contents.append(floats(values))
    for key, value in parameters.items():
        kind = {bool: 'bool_param', int: 'int64_param', str: 'string_param', float: 'double_param'}[type(value)]
        setattr(r.parameters[key], kind, value)
    return r


def simple_request(**kinds):
    """INPUT0 and INPUT1 of the model `simple`, as raw bytes or as typed contents."""
    r = oip.ModelInferRequest(model_name='simple')
    a, b = list(range(16)), [1] * 16
    for name, values in (('INPUT0', a), ('INPUT1', b)):
        t = r.inputs.add(name=name, datatype='INT32', shape=[1, 16])
        if kinds.get('typed'):
            t.contents.int_contents.extend(values)
        else:
            r.raw_input_contents.append(struct.pack('<16i', *values))
    return r


class Oip(harness.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.channel = grpc.insecure_channel(cls.server.address, BIG)
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        super().tearDownClass()

    def fails(self, code, call, *args, **kwargs):
        with self.assertRaises(grpc.RpcError) as caught:
            result = call(*args, timeout=harness.PATIENCE, **kwargs)
            if not hasattr(result, 'DESCRIPTOR'):
                list(result)
        self.assertEqual(code, caught.exception.code(), caught.exception.details())
        return caught.exception.details()

    # --- health and metadata
    def test_the_server_is_live_and_ready_and_so_are_its_models(self):
        self.assertTrue(self.stub.ServerLive(oip.ServerLiveRequest()).live)
        self.assertTrue(self.stub.ServerReady(oip.ServerReadyRequest()).ready)
        self.assertTrue(self.stub.ModelReady(oip.ModelReadyRequest(name='simple')).ready)

    def test_metadata_names_the_server_and_what_it_can(self):
        answer = self.stub.ServerMetadata(oip.ServerMetadataRequest())
        self.assertEqual('weir', answer.name)
        self.assertIn('binary_tensor_data', answer.extensions)
        self.assertNotIn('cuda_shared_memory', answer.extensions)

    def test_model_metadata_and_config_agree_on_the_tensors(self):
        meta = self.stub.ModelMetadata(oip.ModelMetadataRequest(name='simple'))
        self.assertEqual(['INPUT0', 'INPUT1'], [t.name for t in meta.inputs])
        self.assertEqual([-1, 16], list(meta.inputs[0].shape))
        config = self.stub.ModelConfig(oip.ModelConfigRequest(name='simple')).config
        self.assertEqual(8, config.max_batch_size)
        self.assertEqual([16], list(config.input[0].dims))

    # --- inference
    def test_identity_gives_back_what_it_got(self):
        answer = self.stub.ModelInfer(request('identity', id='seven'))
        self.assertEqual('seven', answer.id)
        self.assertEqual(floats(range(16)), answer.raw_output_contents[0])
        self.assertEqual([16], list(answer.outputs[0].shape))

    def test_simple_adds_and_subtracts_raw_and_typed_alike(self):
        for typed in (False, True):
            answer = self.stub.ModelInfer(simple_request(typed=typed))
            by_name = {o.name: struct.unpack('<16i', raw) for o, raw in zip(answer.outputs, answer.raw_output_contents)}
            self.assertEqual(tuple(i + 1 for i in range(16)), by_name['OUTPUT0'])
            self.assertEqual(tuple(i - 1 for i in range(16)), by_name['OUTPUT1'])

    def test_only_the_outputs_asked_for_come(self):
        r = simple_request()
        r.outputs.add(name='OUTPUT1')
        self.assertEqual(['OUTPUT1'], [o.name for o in self.stub.ModelInfer(r).outputs])

    def test_strings_travel_as_bytes(self):
        r = oip.ModelInferRequest(model_name='simple_identity')
        t = r.inputs.add(name='INPUT0', datatype='BYTES', shape=[1, 16])
        t.contents.bytes_contents.extend(['grüße'.encode(), b'\0\xff'] * 8)
        raw = self.stub.ModelInfer(r).raw_output_contents[0]
        self.assertEqual(b''.join(struct.pack('<I', len(s)) + s for s in ('grüße'.encode(), b'\0\xff') * 8), raw)

    def test_classification_names_the_digit(self):
        images, labels = harness.heldout()
        r = oip.ModelInferRequest(model_name='digits')
        r.inputs.add(name='image', datatype='FP32', shape=[1, 64])
        r.raw_input_contents.append(floats(images[0]))
        r.outputs.add(name='probabilities').parameters['classification'].int64_param = 3
        answer = self.stub.ModelInfer(r)
        self.assertEqual('BYTES', answer.outputs[0].datatype)
        first = answer.raw_output_contents[0]
        text = first[4:4 + struct.unpack('<I', first[:4])[0]].decode()
        self.assertEqual(labels[0], int(text.split(':')[1]))

    def test_a_megabyte_comes_back_whole(self):
        values = [float(i % 1000) for i in range(1 << 18)]
        self.assertEqual(floats(values), self.stub.ModelInfer(request('identity', values=values)).raw_output_contents[0])

    def test_gzip_and_deflate_requests_are_understood(self):
        for coding in (grpc.Compression.Gzip, grpc.Compression.Deflate):
            answer = self.stub.ModelInfer(request('identity', values=[1.0] * 5000), compression=coding)
            self.assertEqual(floats([1.0] * 5000), answer.raw_output_contents[0])

    # --- refusals
    def test_an_unknown_model_is_not_found_and_a_near_one_is_named(self):
        self.assertIn('digits', self.fails(grpc.StatusCode.NOT_FOUND, self.stub.ModelInfer, request('digit')))

    def test_a_wrong_type_is_refused_with_the_right_one_named(self):
        r = request('simple', 'INPUT0')
        text = self.fails(grpc.StatusCode.INVALID_ARGUMENT, self.stub.ModelInfer, r)
        self.assertIn('INPUT', text)

    def test_a_wrong_size_is_refused(self):
        r = simple_request()
        r.raw_input_contents[0] = r.raw_input_contents[0][:-1]
        self.assertIn('INPUT0', self.fails(grpc.StatusCode.INVALID_ARGUMENT, self.stub.ModelInfer, r))

    def test_there_are_no_shared_memory_regions_at_first(self):
        self.assertEqual({}, dict(self.stub.SystemSharedMemoryStatus(oip.SystemSharedMemoryStatusRequest()).regions))
        self.assertEqual({}, dict(self.stub.CudaSharedMemoryStatus(oip.CudaSharedMemoryStatusRequest()).regions))
        self.fails(grpc.StatusCode.INTERNAL, self.stub.SystemSharedMemoryRegister,
                   oip.SystemSharedMemoryRegisterRequest(name='a', key='/weir_there_is_none', byte_size=1))
        self.fails(grpc.StatusCode.INVALID_ARGUMENT, self.stub.CudaSharedMemoryRegister,
                   oip.CudaSharedMemoryRegisterRequest(name='a', byte_size=1))
        self.stub.SystemSharedMemoryUnregister(oip.SystemSharedMemoryUnregisterRequest())
        self.stub.CudaSharedMemoryUnregister(oip.CudaSharedMemoryUnregisterRequest())

    def test_an_unknown_method_is_unimplemented(self):
        call = self.channel.unary_unary('/inference.GRPCInferenceService/Nothing')
        self.fails(grpc.StatusCode.UNIMPLEMENTED, call, b'')
        call = self.channel.unary_unary('/nobody.Here/Nothing')
        self.fails(grpc.StatusCode.UNIMPLEMENTED, call, b'')

    # --- streams
    def test_a_stream_answers_each_request_in_order(self):
        answers = list(self.stub.ModelStreamInfer(iter([request('identity', id=str(i)) for i in range(50)])))
        self.assertEqual([str(i) for i in range(50)], [a.infer_response.id for a in answers])

    def test_an_error_in_a_stream_is_a_message_and_the_stream_goes_on(self):
        answers = list(self.stub.ModelStreamInfer(iter([request('nothing'), request('identity', id='after')])))
        self.assertTrue(answers[0].error_message)
        self.assertEqual('after', answers[1].infer_response.id)

    def test_an_error_ends_the_stream_where_the_client_asks_for_that(self):
        metadata = [('triton_grpc_error', 'true')]
        with self.assertRaises(grpc.RpcError) as caught:
            list(self.stub.ModelStreamInfer(iter([request('nothing')]), metadata=metadata, timeout=harness.PATIENCE))
        self.assertEqual(grpc.StatusCode.NOT_FOUND, caught.exception.code())

    def test_a_stream_stays_open_between_requests(self):
        gate, sent = threading.Event(), threading.Event()

        def requests():
            yield request('identity', id='one')
            sent.set()
            gate.wait(harness.PATIENCE)
            yield request('identity', id='two')

        answers = self.stub.ModelStreamInfer(requests())
        self.assertEqual('one', next(answers).infer_response.id)
        gate.set()
        self.assertEqual('two', next(answers).infer_response.id)
        self.assertEqual([], list(answers))

    # --- management
    def test_statistics_count_what_was_done(self):
        before = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name='simple')).model_stats[0]
        for _ in range(3):
            self.stub.ModelInfer(simple_request())
        after = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name='simple')).model_stats[0]
        self.assertEqual(before.inference_count + 3, after.inference_count)
        self.assertGreater(after.inference_stats.compute_infer.ns, before.inference_stats.compute_infer.ns)

    def test_the_index_lists_every_model(self):
        index = self.stub.RepositoryIndex(oip.RepositoryIndexRequest()).models
        self.assertLessEqual({'identity', 'simple', 'simple_string', 'simple_identity', 'digits'}, {m.name for m in index})
        self.assertEqual({'READY'}, {m.state for m in index})

    def test_log_settings_change_at_run_time(self):
        r = oip.LogSettingsRequest()
        r.settings['log_verbose_level'].uint32_param = 1
        self.assertEqual(1, self.stub.LogSettings(r).settings['log_verbose_level'].uint32_param)
        r.settings['log_verbose_level'].uint32_param = 0
        self.assertEqual(0, self.stub.LogSettings(r).settings['log_verbose_level'].uint32_param)
        r.settings['log_file'].string_param = '/tmp/x'
        self.fails(grpc.StatusCode.UNIMPLEMENTED, self.stub.LogSettings, r)

    def test_trace_settings_answer(self):
        self.assertIn('trace_level', self.stub.TraceSetting(oip.TraceSettingRequest()).settings)

    # --- what gRPC itself promises
    def test_many_calls_share_one_connection(self):
        calls = [self.stub.ModelInfer.future(request('identity', id=str(i))) for i in range(300)]
        self.assertEqual([str(i) for i in range(300)], [c.result(harness.PATIENCE).id for c in calls])

    def test_request_ids_come_back_as_metadata(self):
        for sent in ('abc-1', ' abc-1', 'abc-1 '):  # grpc sends spaces as they are; a server may strip them
            _, call = self.stub.ModelInfer.with_call(request('identity'), metadata=[('x-request-id', sent)])
            self.assertIn(('x-request-id', 'abc-1'), [tuple(m) for m in call.initial_metadata()])

    def test_errors_carry_the_request_id_in_the_trailers(self):
        def failing(model, **more):
            with self.assertRaises(grpc.RpcError) as caught:
                self.stub.ModelInfer(request(model), **more)
            return dict(caught.exception.trailing_metadata())
        self.assertEqual('abc-2', failing('nothing', metadata=[('x-request-id', 'abc-2')])['x-request-id'])
        self.assertRegex(failing('nothing')['x-request-id'], '^[0-9a-f]{16}$')
        stream = self.stub.ModelStreamInfer(iter([request('identity', id='a')]))
        next(stream)
        stream.cancel()
        with self.assertRaises(grpc.RpcError) as caught:
            self.channel.unary_unary('/inference.GRPCInferenceService/Nothing')(b'')
        self.assertIn('x-request-id', dict(caught.exception.trailing_metadata()))

    def test_aio_clients_work_too(self):
        async def run():
            async with grpc.aio.insecure_channel(self.server.address) as channel:
                stub = oip_grpc.GRPCInferenceServiceStub(channel)
                answers = await asyncio.gather(*[stub.ModelInfer(request('identity', id=str(i))) for i in range(50)])
                stream = stub.ModelStreamInfer()
                await stream.write(request('identity', id='s'))
                first = await stream.read()
                await stream.done_writing()
                return [a.id for a in answers], first.infer_response.id

        self.assertEqual(([str(i) for i in range(50)], 's'), asyncio.run(run()))


class Health(harness.Case):
    def test_check_and_watch(self):
        with grpc.insecure_channel(self.server.address) as channel:
            stub = health_grpc.HealthStub(channel)
            for service in ('', 'inference.GRPCInferenceService', 'grpc.health.v1.Health', 'model:digits'):
                self.assertEqual(1, stub.Check(health.HealthCheckRequest(service=service)).status, service)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Check(health.HealthCheckRequest(service='model:nothing'))
            self.assertEqual(grpc.StatusCode.NOT_FOUND, caught.exception.code())
            watch = stub.Watch(health.HealthCheckRequest(service='model:nothing'))
            self.assertEqual(3, next(watch).status)
            watch.cancel()


class Slow(unittest.TestCase):
    """Deadlines and cancellation need a model that takes its time."""

    @classmethod
    def setUpClass(cls):
        repository = harness.scratch() / 'slow'
        (repository / 'slow').mkdir(parents=True, exist_ok=True)
        (repository / 'slow/config.pbtxt').write_text(
            'backend: "identity"\nparameters { key: "delay_us" value { string_value: "300000" } }\n')
        cls.server = harness.Server(repository=repository)
        cls.channel = grpc.insecure_channel(cls.server.address)
        cls.stub = oip_grpc.GRPCInferenceServiceStub(cls.channel)

    @classmethod
    def tearDownClass(cls):
        cls.channel.close()
        assert cls.server.stop() == 0

    def test_a_deadline_ends_the_call(self):
        begun = time.monotonic()
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request('slow'), timeout=0.05)
        self.assertEqual(grpc.StatusCode.DEADLINE_EXCEEDED, caught.exception.code())
        self.assertLess(time.monotonic() - begun, 5)

    def test_a_cancelled_call_frees_its_place(self):
        calls = [self.stub.ModelInfer.future(request('slow')) for _ in range(20)]
        for call in calls:
            call.cancel()
        self.assertEqual(16, len(self.stub.ModelInfer(request('slow'), timeout=harness.PATIENCE).raw_output_contents[0]) // 4)
        stats = self.stub.ModelStatistics(oip.ModelStatisticsRequest(name='slow')).model_stats[0]
        self.assertLess(stats.execution_count, 10)

    def test_a_timeout_parameter_bounds_the_queue(self):
        first = self.stub.ModelInfer.future(request('slow'))
        with self.assertRaises(grpc.RpcError) as caught:
            self.stub.ModelInfer(request('slow', timeout=1000))
        self.assertIn(caught.exception.code(), (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE))
        first.result(harness.PATIENCE)


if __name__ == '__main__':
    harness.main()
