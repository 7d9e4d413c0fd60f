// The way of one small inference through codec, router, dialect and bus, without sockets and threads: guard.py counts
// the instructions of measured() under callgrind.
//
//   infer_paths rest|grpc REQUESTS
//
// 16 floats go in and come out of a model that answers at once. A hundred requests go before those that are counted, so
// that what is kept from request to request is there.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "dialects/oip/bench.h"
#include "inference.pb.h"
#include "support/h2_client.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

constexpr int kWarmUp = 100;

class EchoInbox final : public msg::Inbox {
 public:
  void put(msg::Call* call) override { call->home->post_here({call, {msg::Outputs{call->inputs, {}, true}}}); }
};

[[noreturn]] void fail(const std::string& why) {
  std::fprintf(stderr, "%s\n", why.c_str());
  std::exit(1);
}

}  // namespace

class Connection {
 public:
  explicit Connection(bool h2) {
    auto served = std::make_shared<bus::Served>();
    served->spec.name = "echo", served->spec.version = "1", served->spec.any_tensors = true;
    served->inbox = std::make_unique<EchoInbox>();
    bench_.models.catalog->models["echo"] = {{{"1", served}}, served.get()};
    bench_.bus.publish(bench_.models.catalog);
    wire::CodecEnv services{bench_.wire.router, base::heap(), limits_};
    codec_ = h2 ? wire::make_h2(services, wire_, peer_) : wire::make_h1(services, wire_, peer_);
  }
  std::string serve(std::string_view bytes) {
    support::feed(*codec_, bytes);
    bench_.bus.turn();
    return support::take_output(*codec_);
  }

 private:
  oip::OipBench bench_;
  support::FakeWire wire_;
  wire::Limits limits_;
  wire::PeerInfo peer_{"127.0.0.1:1", wire::Security::kCleartext};
  std::unique_ptr<wire::Codec> codec_;
};

// Not in an unnamed namespace, and never in line: callgrind finds it by its name.
[[gnu::noinline]] std::string measured(Connection& connection, std::string_view bytes) {
  return connection.serve(bytes);
}

namespace {

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
    std::string answer = i < kWarmUp ? connection.serve(request) : measured(connection, request);
    if (!answer.starts_with("HTTP/1.1 200 ") || answer.find("15.5]") == answer.npos) fail(answer);
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
    client.input(i < kWarmUp ? connection.serve(bytes) : measured(connection, bytes));
    const auto& answer = client[id];
    if (answer.trailer("grpc-status") != "0" || answer.body.size() < 64)
      fail("no answer to request " + std::to_string(i));
    client.answers.erase(id);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) fail("usage: infer_paths rest|grpc REQUESTS");
  std::strcmp(argv[1], "grpc") == 0 ? run_grpc(std::atoi(argv[2])) : run_rest(std::atoi(argv[2]));
}
