// Frames and calls for tests of remote methods: what a gRPC client would send, and what it would understand.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fake_env.h"
#include "support/fake_wire.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::support {

inline std::string grpc_frame(std::string_view payload, char flag = 0) {
  auto n = uint32_t(payload.size());
  std::string out{flag, char(n >> 24), char(n >> 16), char(n >> 8), char(n)};
  return out += payload;
}

struct GrpcFrame {
  int flag;
  std::string payload;
  friend bool operator==(const GrpcFrame&, const GrpcFrame&) = default;
};

// The frames in `bytes`; a cut one at the end is left out.
inline std::vector<GrpcFrame> grpc_frames(std::string_view bytes) {
  std::vector<GrpcFrame> out;
  while (bytes.size() >= 5) {
    auto at = [&](size_t i) { return size_t(uint8_t(bytes[i])); };
    size_t n = at(1) << 24 | at(2) << 16 | at(3) << 8 | at(4);
    if (bytes.size() < 5 + n) break;
    out.push_back({int(at(0)), std::string(bytes.substr(5, n))});
    bytes.remove_prefix(5 + n);
  }
  return out;
}

// A Router and a RpcServer, and Exchanges through them.
class RpcBench {
 public:
  explicit RpcBench(wire::JsonForm* json = nullptr, wire::RpcOptions options = {}) : json_(json), options_(options) {}

  base::FakeEnv env;
  FakeSlabs slabs;
  base::SlabSource* other_slabs = nullptr;  // in place of `slabs`; before the first server()
  wire::Router router{env};
  const wire::PeerInfo* peer = nullptr;  // whose the calls to come are; null: FakeExchange's own

  wire::RpcServer& server() {
    if (!server_)
      server_ = std::make_unique<wire::RpcServer>(router, env, other_slabs ? *other_slabs : slabs, json_, options_);
    return *server_;
  }

  // Closes the Exchange as a codec does when it goes.
  struct Close {
    wire::Router* router;
    void operator()(FakeExchange* x) const {
      x->close(x->ended && !x->was_reset);
      router->closed(*x);
      delete x;
    }
  };
  using Opened = std::unique_ptr<FakeExchange, Close>;

  using Headers = std::vector<std::pair<std::string, std::string>>;
  // The head of a call has arrived.
  Opened open(std::string path, std::string_view type = "application/grpc", const Headers& headers = {},
              wire::Version version = wire::Version::kHttp2) {
    server();
    Opened x(new FakeExchange("POST", std::move(path)), {&router});
    x->mutable_request().version = version;
    x->mutable_request().content_length = -1;
    x->mutable_request().fields.add("content-type", type);
    for (const auto& [name, value] : headers) x->mutable_request().fields.add(name, value);
    if (peer) x->mutable_request().peer = peer;
    x->time = env.now();
    router.begin(*x);
    return x;
  }
  static void data(FakeExchange& x, std::string_view bytes) {
    if (x.listener()) x.listener()->on_data(x, std::as_bytes(std::span(bytes)));
  }
  static void end(FakeExchange& x) {
    if (x.listener()) x.listener()->on_end(x);
  }
  // A whole call with that body.
  Opened run(std::string path, std::string_view body, std::string_view type = "application/grpc",
             const Headers& headers = {}, wire::Version version = wire::Version::kHttp2) {
    auto x = open(std::move(path), type, headers, version);
    data(*x, body);
    end(*x);
    return x;
  }

  // Lets held-back work be tried again, and moves the clock of `x` too.
  void advance(FakeExchange& x, base::Duration by) {
    x.time += by;
    env.advance(by);
  }

 private:
  wire::JsonForm* json_;
  wire::RpcOptions options_;
  std::unique_ptr<wire::RpcServer> server_;
};

// grpc-status of a finished gRPC call, wherever it is; -1 when there is none, -2 when there are two.
inline int grpc_status(const FakeExchange& x) {
  auto head = x.response.fields.find("grpc-status"), trailer = x.trailers.find("grpc-status");
  if (head.data() && trailer.data()) return -2;
  auto text = head.data() ? head : trailer;
  return text.data() ? std::stoi(std::string(text)) : -1;
}
inline std::string grpc_message(const FakeExchange& x) {
  auto head = x.response.fields.find("grpc-message");
  return std::string(head.data() ? head : x.trailers.find("grpc-message"));
}

}  // namespace weir::support
