// The transport alone: shards, connections and codecs, and an Intake that answers everything at once. What it does in a
// second is the ceiling for everything that is built on it.
//
//   bench_net_bare ADDRESS SHARDS     runs until SIGTERM or SIGINT, then drains
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <vector>

#include "net/server.h"
#include "net/shard.h"
#include "net/signals.h"
#include "wire/codec.h"

namespace {

using namespace weir;

class Answers final : public wire::Intake {
 public:
  wire::Plan begin(wire::Exchange& exchange) override {
    bool has_body = exchange.request().method == "POST";
    if (!has_body) answer(exchange);
    return {.body = has_body ? wire::BodyPlan::kWhole : wire::BodyPlan::kIgnore};
  }
  void whole(wire::Exchange& exchange) override { answer(exchange); }
  void closed(wire::Exchange&) override {}
  void rejected(std::string_view, const wire::PeerInfo&) override {}

 private:
  static void answer(wire::Exchange& exchange) {
    // "/N" asks for N bytes.
    size_t size = std::strtoul(std::string(exchange.request().path().substr(1)).c_str(), nullptr, 10);
    auto body = size == 0 ? base::Bytes::constant(kSmall) : base::Bytes::adopt(std::string(size, 'x'));
    exchange.respond(200, "application/json", std::move(body));
  }
  static constexpr std::string_view kSmall =
      "{\"model_name\":\"identity\",\"outputs\":[{\"name\":\"x\",\"datatype\":\"FP32\",\"shape\":[1,16],\"data\":"
      "[0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15]}]}";
};

}  // namespace

int main(int argc, char** argv) {
  net::ServerOptions options;
  options.listen = {{argc > 1 ? argv[1] : "127.0.0.1:0"}};
  size_t count = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 1;
  Answers answers;
  wire::Limits limits;
  base::Metrics metrics;
  std::vector<std::unique_ptr<net::Shard>> shards;
  std::vector<net::Shard*> pointers;
  std::vector<wire::CodecEnv> envs;
  for (size_t i = 0; i < count; ++i) {
    shards.push_back(std::make_unique<net::Shard>(base::ShardId(uint16_t(i)), net::Pin::kYes));
    pointers.push_back(shards.back().get());
    envs.push_back({answers, base::heap(), limits});
  }
  std::promise<bool> drained;
  net::Server server(pointers, envs, options, metrics);
  net::Signals signals(*pointers.front(), [&](int) { server.drain([&](bool clean) { drained.set_value(clean); }); });
  if (auto status = server.bind(); !status.ok()) {
    std::fprintf(stderr, "%s\n", status.text.c_str());
    return 1;
  }
  std::printf("%s\n", server.bound().front().c_str());
  std::fflush(stdout);
  server.start();
  for (auto& shard : shards) shard->start();
  return drained.get_future().get() ? 0 : 1;
}
