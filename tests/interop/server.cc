// Serves grpc.testing.TestService on 127.0.0.1 with weir's own HTTP/2 and gRPC, cleartext and TLS on one port, and says
// "listening on 127.0.0.1:PORT". Ends at SIGTERM.
//   interop_server [--port N] [--cert FILE --key FILE]
#include <csignal>
#include <cstdio>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/metrics.h"
#include "interop/test_service.h"
#include "net/server.h"
#include "net/shard.h"
#include "net/signals.h"
#include "wire/date.h"
#include "wire/router.h"
#include "wire/rpc.h"

namespace weir::interop {
namespace {

constexpr uint16_t kShards = 2;

// Says why a client was turned away.
struct Rejects final : wire::Observer {
  void finished(const wire::Exchange&) override {}
  void rejected(std::string_view reason, const wire::PeerInfo& peer) override {
    std::fprintf(stderr, "rejected %s: %.*s\n", peer.address.c_str(), int(reason.size()), reason.data());
  }
};

// Everything that answers on one shard.
struct Front {
  explicit Front(net::Shard& shard)
      : date(shard.env()),
        router(shard.env()),
        rpcs(router, shard.env(), base::heap(), nullptr, TestService::options()),
        test_service(rpcs, shard.env()) {
    router.observe(rejects);
  }

  wire::HttpDate date;
  Rejects rejects;
  wire::Router router;
  wire::RpcServer rpcs;
  TestService test_service;
};

net::ServerOptions read_arguments(int count, char** arguments) {
  net::ServerOptions options;
  std::string port = "0";
  for (int i = 1; i + 1 < count; i += 2) {
    std::string_view flag = arguments[i];
    if (flag == "--port") port = arguments[i + 1];
    if (flag == "--cert") options.tls.certificate = arguments[i + 1];
    if (flag == "--key") options.tls.key = arguments[i + 1];
  }
  options.listen = {{"127.0.0.1:" + port}};
  return options;
}

int serve(net::ServerOptions options) {
  const wire::Limits limits;
  base::Metrics metrics;
  std::vector<std::unique_ptr<net::Shard>> shards;
  std::vector<std::unique_ptr<Front>> fronts;
  std::vector<net::Shard*> pointers;
  std::vector<wire::CodecEnv> envs;
  for (uint16_t i = 0; i < kShards; ++i) {
    shards.push_back(std::make_unique<net::Shard>(base::ShardId(i), net::Pin::kNo));
    pointers.push_back(shards.back().get());
    fronts.push_back(std::make_unique<Front>(*shards.back()));
    envs.push_back({fronts.back()->router, base::heap(), limits, &fronts.back()->date});
  }
  std::optional<net::Server> server(std::in_place, pointers, envs, std::move(options), metrics);
  if (auto status = server->bind(); !status.ok()) {
    std::fprintf(stderr, "interop_server: %s\n", status.text.c_str());
    return 1;
  }
  for (auto& shard : shards) shard->start();
  std::promise<bool> drained;
  std::optional<net::Signals> signals(std::in_place, *shards[0], [&, asked = false](int) mutable {
    if (!std::exchange(asked, true)) server->drain([&](bool clean) { drained.set_value(clean); });
  });
  server->start();
  std::printf("listening on %s\n", server->bound()[0].c_str());
  std::fflush(stdout);
  bool clean = drained.get_future().get();
  server.reset();
  for (auto& shard : shards) shard->stop();
  for (auto& shard : shards) shard->join();
  return clean ? 0 : 1;
}

}  // namespace
}  // namespace weir::interop

int main(int count, char** arguments) { return weir::interop::serve(weir::interop::read_arguments(count, arguments)); }
