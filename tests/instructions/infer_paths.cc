// The way of one small inference through codec, router, dialect, bus and an inline engine, without sockets and threads:
// guard.py counts the instructions of measured() under callgrind.
//
//   infer_paths rest|grpc|forward REQUESTS
//
// 16 floats go in and come out of the identity model; with `forward`, of an origin (forward_path.h). Bodies and tensors
// lie in slabs of a pool, as in the server. A hundred requests go before those that are counted, so that what is kept
// from request to request is there. Prints the allocations that measured() made, all requests together; those for the
// client of the test do not count.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "device/pool.h"
#include "dialects/oip/bench.h"
#include "engines/identity/identity.h"
#include "forward_path.h"
#include "inference.pb.h"
#include "sched/lane.h"
#include "support/h2_client.h"
#include "wire/date.h"

// glibc's own names for what the program's functions below stand in front of.
extern "C" {
void* __libc_malloc(size_t bytes);                  // NOLINT: its name
void* __libc_calloc(size_t n, size_t bytes);        // NOLINT
void* __libc_realloc(void* before, size_t bytes);   // NOLINT
void* __libc_memalign(size_t align, size_t bytes);  // NOLINT
}

namespace {

using namespace weir;  // NOLINT: a program of one file

constexpr int kWarmUp = 100;
constexpr uint64_t kSlabs = uint64_t(64) << 20;

bool counting = false;
uint64_t allocations = 0;

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

}  // namespace

// operator new asks these as well. A sanitizer brings functions of its own, and then nothing is counted.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
extern "C" {
void* malloc(size_t bytes) { return allocations += counting, __libc_malloc(bytes); }
void* calloc(size_t n, size_t bytes) { return allocations += counting, __libc_calloc(n, bytes); }
void* realloc(void* before, size_t bytes) { return allocations += counting, __libc_realloc(before, bytes); }
void* aligned_alloc(size_t align, size_t bytes) { return allocations += counting, __libc_memalign(align, bytes); }
}
#endif

class Connection {
 public:
  explicit Connection(bool h2) {
    auto served = std::make_shared<bus::Served>();
    msg::ModelSpec spec;
    spec.name = "echo", spec.version = "1";
    auto engine = identity::load(spec);
    if (!engine) fail(engine.error().text);
    served->spec = (*engine)->spec();
    served->inbox = sched::make_inline(*std::move(engine), served->spec, served->stats);
    bench_.models.catalog->models["echo"] = {{{"1", served}}, served.get()};
    bench_.bus.publish(bench_.models.catalog);
    codec_ = h2 ? wire::make_h2(env_, wire_, peer_) : wire::make_h1(env_, wire_, peer_);
  }
  // The answer, until the next one.
  std::string_view serve(std::string_view bytes) {
    support::feed(*codec_, bytes);
    bench_.bus.turn();
    answer_.clear();
    take_output();
    return answer_;
  }

 private:
  // As support::take_output(), without memory of its own.
  void take_output() {
    std::array<iovec, 64> pieces;
    for (size_t n = codec_->pending(pieces); n > 0; n = codec_->pending(pieces)) {
      size_t bytes = 0;
      for (size_t i = 0; i < n; ++i) {
        answer_.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
        bytes += pieces[i].iov_len;
      }
      codec_->consumed(bytes);
    }
  }

  device::SlabPool slabs_{kSlabs};
  oip::OipBench bench_{slabs_};
  support::FakeWire wire_;
  wire::HttpDate date_{wire_.env};
  wire::Limits limits_;
  wire::PeerInfo peer_{"127.0.0.1:1", wire::Security::kCleartext};
  wire::CodecEnv env_{bench_.wire.router, slabs_, limits_, &date_};
  std::string answer_ = std::string(4096, ' ');
  std::unique_ptr<wire::Codec> codec_;
};

// Not in an unnamed namespace, and never in line: callgrind finds it by its name.
[[gnu::noinline]] std::string_view measured(Connection& connection, std::string_view bytes) {
  return connection.serve(bytes);
}
[[gnu::noinline]] bool measured(instructions::ForwardPath& path, std::string_view answer) {
  return path.exchange(answer);
}

namespace {

std::string_view counted(Connection& connection, std::string_view bytes) {
  counting = true;
  const std::string_view answer = measured(connection, bytes);
  counting = false;
  return answer;
}

void run_rest(int requests) {
  Connection connection(false);
  const std::string body =
      R"({"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":[0.5,1.5,2.5,3.5,4.5,5.5,6.5,7.5,)"
      R"(8.5,9.5,10.5,11.5,12.5,13.5,14.5,15.5]}]})";
  const std::string request =
      "POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost:8080\r\nUser-Agent: h2load\r\n"
      "Content-Type: application/json\r\nContent-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body;
  for (int i = 0; i < kWarmUp + requests; ++i) {
    const std::string_view answer = i < kWarmUp ? connection.serve(request) : counted(connection, request);
    if (!answer.starts_with("HTTP/1.1 200 ") || answer.find("15.5]") == answer.npos) fail(std::string(answer));
  }
}

void run_grpc(int requests) {
  Connection connection(true);
  test::Client client;
  inference::ModelInferRequest message;
  message.set_model_name("echo");
  auto* input = message.add_inputs();
  input->set_name("INPUT0"), input->set_datatype("FP32");
  input->add_shape(1), input->add_shape(16);
  message.add_raw_input_contents(std::string(64, 'x'));
  const std::string body = support::grpc_frame(message.SerializeAsString());
  const test::Headers head{{":method", "POST"},          {":scheme", "http"},
                           {":authority", "localhost"},  {":path", "/inference.GRPCInferenceService/ModelInfer"},
                           {"te", "trailers"},           {"content-type", "application/grpc"},
                           {"user-agent", "grpc-c++/1"}, {"grpc-accept-encoding", "identity, deflate, gzip"}};
  for (int i = 0; i < kWarmUp + requests; ++i) {
    const int32_t id = client.request(head, body);
    const std::string bytes = client.output();
    client.input(i < kWarmUp ? connection.serve(bytes) : counted(connection, bytes));
    const auto& answer = client[id];
    if (answer.trailer("grpc-status") != "0" || answer.body.size() < 64)
      fail("no answer to request " + std::to_string(i));
    client.answers.erase(id);
  }
}

void run_forward(int requests) {
  device::SlabPool slabs(kSlabs);
  instructions::ForwardPath path(slabs);
  for (int i = 0; i < kWarmUp + requests; ++i) {
    const std::string_view answer = path.next_answer();
    counting = i >= kWarmUp;
    const bool right = counting ? measured(path, answer) : path.exchange(answer);
    counting = false;
    if (!right) fail("no answer to request " + std::to_string(i));
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view which = argc == 3 ? argv[1] : "";
  if (which != "rest" && which != "grpc" && which != "forward") fail("usage: infer_paths rest|grpc|forward REQUESTS");
  (which == "rest" ? run_rest : which == "grpc" ? run_grpc : run_forward)(std::atoi(argv[2]));
  std::printf("%llu\n", static_cast<unsigned long long>(allocations));
}
