// grpc-java over Netty with its stock settings against a running server: long streams, many streams, large messages at
// once, long loops. Messages are put together by hand, so that no generated code is needed. Arguments: host and port.
import io.grpc.CallOptions;
import io.grpc.ManagedChannel;
import io.grpc.MethodDescriptor;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.netty.NettyChannelBuilder;
import io.grpc.stub.ClientCalls;
import io.grpc.stub.StreamObserver;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Semaphore;
import java.util.concurrent.TimeUnit;

class JavaClient {
  static final String SERVICE = "inference.GRPCInferenceService";
  static final int LIMIT_S = 120;  // of one test

  // Messages are bytes already.
  static final MethodDescriptor.Marshaller<byte[]> RAW = new MethodDescriptor.Marshaller<byte[]>() {
    @Override public InputStream stream(byte[] message) { return new ByteArrayInputStream(message); }
    @Override public byte[] parse(InputStream in) {
      try {
        return in.readAllBytes();
      } catch (IOException e) {
        throw new IllegalStateException(e);
      }
    }
  };

  static MethodDescriptor<byte[], byte[]> method(String name, MethodDescriptor.MethodType type) {
    return MethodDescriptor.<byte[], byte[]>newBuilder(RAW, RAW)
        .setType(type).setFullMethodName(MethodDescriptor.generateFullMethodName(SERVICE, name)).build();
  }
  static final MethodDescriptor<byte[], byte[]> INFER = method("ModelInfer", MethodDescriptor.MethodType.UNARY);
  static final MethodDescriptor<byte[], byte[]> STREAM = method("ModelStreamInfer", MethodDescriptor.MethodType.BIDI_STREAMING);
  static final MethodDescriptor<byte[], byte[]> MISSING = method("NoSuchMethod", MethodDescriptor.MethodType.UNARY);

  static void varint(ByteArrayOutputStream out, long n) {
    for (; n > 127; n >>= 7) out.write((int) (n & 127 | 128));
    out.write((int) n);
  }
  static void field(ByteArrayOutputStream out, int number, byte[] value) {
    varint(out, number << 3 | 2);
    varint(out, value.length);
    out.writeBytes(value);
  }
  static byte[] utf8(String text) { return text.getBytes(StandardCharsets.UTF_8); }

  // inference.ModelInferRequest for the model identity, with one tensor of bytes.
  static byte[] request(String id, byte[] payload) {
    ByteArrayOutputStream shape = new ByteArrayOutputStream(), tensor = new ByteArrayOutputStream(), out = new ByteArrayOutputStream();
    varint(shape, payload.length);
    field(tensor, 1, utf8("INPUT0"));
    field(tensor, 2, utf8("UINT8"));
    field(tensor, 3, shape.toByteArray());
    field(out, 1, utf8("identity"));
    field(out, 3, utf8(id));
    field(out, 5, tensor.toByteArray());
    field(out, 7, payload);
    return out.toByteArray();
  }

  // The first value of a field of length-delimited bytes; fields of other kinds are not expected before it.
  static byte[] find(byte[] message, int number) {
    for (int at = 0; at < message.length;) {
      int tag = message[at++] & 255, length = 0;
      for (int shift = 0;; shift += 7) {
        int octet = message[at++] & 255;
        length |= (octet & 127) << shift;
        if (octet < 128) break;
      }
      if ((tag & 7) != 2) throw new IllegalStateException("field " + (tag >> 3) + " is no bytes");
      if (tag >> 3 == number) return Arrays.copyOfRange(message, at, at + length);
      at += length;
    }
    return new byte[0];
  }

  // Throws unless `response` is an inference.ModelInferResponse to request(id, payload).
  static void check(byte[] response, String id, byte[] payload) {
    String got = new String(find(response, 3), StandardCharsets.UTF_8);
    if (!got.equals(id)) throw new IllegalStateException("answer '" + got + "' to request '" + id + "'");
    if (!Arrays.equals(find(response, 6), payload)) throw new IllegalStateException("request " + id + " came back changed");
  }
  // One answer of ModelStreamInfer.
  static void checkStreamed(byte[] answer, String id, byte[] payload) {
    String error = new String(find(answer, 1), StandardCharsets.UTF_8);
    if (!error.isEmpty()) throw new IllegalStateException(error);
    check(find(answer, 2), id, payload);
  }

  static void unary(ManagedChannel channel, String id, byte[] payload) {
    check(ClientCalls.blockingUnaryCall(channel, INFER, CallOptions.DEFAULT, request(id, payload)), id, payload);
  }

  // A stream of `count` messages each way, of which at most `ahead` are on their way. Completes after the server's end.
  static CompletableFuture<Void> streamOf(ManagedChannel channel, int count, int ahead, byte[] payload) {
    CompletableFuture<Void> over = new CompletableFuture<>();
    Semaphore room = new Semaphore(ahead);
    StreamObserver<byte[]> requests = ClientCalls.asyncBidiStreamingCall(
        channel.newCall(STREAM, CallOptions.DEFAULT), new StreamObserver<byte[]>() {
          int next = 0;
          @Override public void onNext(byte[] answer) {
            try {
              checkStreamed(answer, Integer.toString(next++), payload);
            } catch (RuntimeException wrong) {
              over.completeExceptionally(wrong);
            }
            room.release();
          }
          @Override public void onError(Throwable why) {
            over.completeExceptionally(new IllegalStateException("after message " + next + " of " + count, why));
            room.release(count);
          }
          @Override public void onCompleted() {
            if (next == count) over.complete(null);
            else over.completeExceptionally(new IllegalStateException("the stream ended after message " + next + " of " + count));
          }
        });
    Thread writer = new Thread(() -> {
      for (int i = 0; i < count && !over.isDone(); ++i) {
        room.acquireUninterruptibly();
        if (over.isDone()) return;
        requests.onNext(request(Integer.toString(i), payload));
      }
      requests.onCompleted();
    });
    writer.setDaemon(true);
    writer.start();
    return over;
  }

  interface Work { void run(int i) throws Exception; }

  // Runs work(0) … work(n-1) at once.
  static void together(int n, Work work) throws Exception {
    List<CompletableFuture<Void>> all = new ArrayList<>();
    for (int i = 0; i < n; ++i) {
      CompletableFuture<Void> over = new CompletableFuture<>();
      all.add(over);
      int number = i;
      Thread thread = new Thread(() -> {
        try {
          work.run(number);
          over.complete(null);
        } catch (Throwable why) {
          over.completeExceptionally(why);
        }
      });
      thread.setDaemon(true);
      thread.start();
    }
    CompletableFuture.allOf(all.toArray(new CompletableFuture<?>[0])).get(LIMIT_S, TimeUnit.SECONDS);
  }

  static byte[] payload(int size) {
    byte[] out = new byte[size];
    for (int i = 0; i < size; ++i) out[i] = (byte) i;
    return out;
  }

  interface Test { void run(ManagedChannel channel) throws Exception; }

  static int passed = 0, failed = 0;

  static void test(String[] args, String name, Test test) {
    ManagedChannel channel = NettyChannelBuilder.forAddress(args[0], Integer.parseInt(args[1])).usePlaintext().build();
    long begin = System.nanoTime();
    try {
      test.run(channel);
      System.out.printf("ok     %s (%d ms)%n", name, (System.nanoTime() - begin) / 1_000_000);
      ++passed;
    } catch (Throwable why) {
      System.out.printf("FAILED %s: %s%n", name, why);
      for (Throwable inner = why.getCause(); inner != null; inner = inner.getCause()) System.out.println("       " + inner);
      ++failed;
    }
    channel.shutdownNow();
  }

  public static void main(String[] args) {
    test(args, "a stream of 10,000 small messages, one at a time",
        c -> streamOf(c, 10_000, 1, payload(16)).get(LIMIT_S, TimeUnit.SECONDS));
    test(args, "a stream of 10,000 small messages, many on their way",
        c -> streamOf(c, 10_000, 256, payload(16)).get(LIMIT_S, TimeUnit.SECONDS));
    test(args, "a stream of 10,000 messages of 4 KiB",
        c -> streamOf(c, 10_000, 64, payload(4 << 10)).get(LIMIT_S, TimeUnit.SECONDS));
    test(args, "64 streams of 500 messages at once", c -> together(64,
        i -> streamOf(c, 500, 8, payload(1000)).get(LIMIT_S, TimeUnit.SECONDS)));
    test(args, "400 streams at once, four times as many as are announced", c -> together(400,
        i -> streamOf(c, 10, 2, payload(100)).get(LIMIT_S, TimeUnit.SECONDS)));
    test(args, "100 calls of 1 MiB at once, three times", c -> {
      byte[] megabyte = payload(1 << 20);
      for (int round = 0; round < 3; ++round) together(100, i -> unary(c, Integer.toString(i), megabyte));
    });
    test(args, "3,000 calls one after the other", c -> {
      for (int i = 0; i < 3000; ++i) unary(c, Integer.toString(i), payload(100));
    });
    test(args, "300 calls of a method that is not there", c -> {
      for (int i = 0; i < 300; ++i) {
        try {
          ClientCalls.blockingUnaryCall(c, MISSING, CallOptions.DEFAULT, request("0", payload(1000)));
          throw new IllegalStateException("it was answered");
        } catch (StatusRuntimeException e) {
          if (e.getStatus().getCode() != Status.Code.UNIMPLEMENTED) throw e;
        }
      }
    });
    System.out.printf("%d passed, %d failed%n", passed, failed);
    System.exit(failed > 0 ? 1 : 0);
  }
}
