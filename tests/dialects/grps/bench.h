// GRPS on one fake shard: a Bus with scripted models, a Router and an RpcServer with fake Exchanges in front.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dialects/grps/grps.h"
#include "dialects/grps/monitor.h"
#include "support/rpc_wire.h"
#include "support/scripted_models.h"

namespace weir::grps {

using support::outputs;

// A route of the configuration's own.
inline RouteSpec route(std::string path, std::string model, RouteSpec::Pairs inputs) {
  RouteSpec r;
  r.path = std::move(path);
  r.model = std::move(model);
  r.inputs = std::move(inputs);
  return r;
}
// Options with that route alone, which must be one that the configuration may have.
Options with(RouteSpec route);

class Bench {
 public:
  explicit Bench(Options options = {});
  ~Bench();

  support::RpcBench wire;
  bus::Bus bus{wire.env, base::ShardId{0}, [] {}};
  support::ScriptedModels models;
  Presence presence;
  base::Metrics metrics;
  Monitor monitor{metrics, [] { return Monitor::Usage{0, 64 << 20, 256 << 20, {}}; }};
  bool ready = true;
  std::unique_ptr<Grps> grps;

  struct Answer {
    int status = 0;  // HTTP, or the gRPC code
    std::string body;
    std::string type;
    std::vector<std::string> messages;  // gRPC
  };
  using Headers = support::RpcBench::Headers;
  using Opened = support::RpcBench::Opened;
  static inline const Headers kJson{{"content-type", "application/json"}};

  Opened open_rest(std::string method, std::string target, std::string_view body = {}, const Headers& headers = kJson);
  Answer rest(std::string method, std::string target, std::string_view body = {}, const Headers& headers = kJson);
  Answer predict(std::string_view body, std::string query = {}, const Headers& headers = kJson) {
    return rest("POST", "/grps/v1/infer/predict" + query, body, headers);
  }
  Opened open_grpc(std::string method, std::string_view message);
  Answer grpc(std::string method, std::string_view message);
  static Answer answer(support::FakeExchange& exchange);
};

}  // namespace weir::grps
