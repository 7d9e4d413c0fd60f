// The whole dialect on one fake shard: a Bus with a recording Inbox behind every model, a Router and an RpcServer with
// fake Exchanges in front.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "dialects/dialect.h"
#include "dialects/oip/oip.h"
#include "dialects/oip/shared_memory/shared_regions.h"
#include "dialects/oip/trace.h"
#include "support/fake_offload.h"
#include "support/fake_wire.h"
#include "support/rpc_wire.h"
#include "support/scripted_models.h"

namespace weir::oip {

using support::outputs;

class FakeControl final : public dialects::ServerControl {
 public:
  bool is_accepting = true;
  std::string not_ready;
  std::vector<std::string> asked;
  std::vector<Done> waiting;
  std::vector<std::string> changes;

  bool accepting() const override { return is_accepting; }
  std::string why_not_ready() const override { return not_ready; }
  void load(const std::string& model, LoadParameters parameters, Done done) override;
  void unload(const std::string& model, Dependents dependents, Done done) override;
  void settings_changed(const wire::Exchange&, std::string change) override { changes.push_back(std::move(change)); }
};

class OipBench {
 public:
  // `slabs` outlives this.
  explicit OipBench(base::SlabSource& slabs = base::heap());
  ~OipBench();

  support::RpcBench wire;
  bus::Bus bus{wire.env, base::ShardId{0}, [] {}};
  support::ScriptedModels models;
  FakeControl control;
  Traces traces;
  Sharing sharing = Sharing::kEverybody;
  uint64_t shared_bytes = 64 << 20;
  SharedRegions regions{sharing, shared_bytes};
  support::FakeOffload offload;
  std::unique_ptr<Oip> oip;

  support::ScriptedInbox& inbox(const std::string& model) { return models[model]; }
  bus::Served& served(const std::string& model) { return *models.catalog->models.at(model).preferred; }
  void turn() { bus.turn(); }

  struct Answer {
    int status = 0;    // HTTP, or the gRPC code
    std::string body;  // of REST, or the grpc-message
    std::vector<std::string> messages;
    std::string type;
    std::string header_length;
  };
  using Headers = support::RpcBench::Headers;
  // Sends and runs turns until it is answered or nothing more happens.
  Answer rest(std::string method, std::string target, std::string_view body = {}, const Headers& headers = {});
  Answer grpc(std::string method, std::string_view message, const Headers& headers = {});
  support::RpcBench::Opened open_rest(std::string method, std::string target, std::string_view body = {},
                                      const Headers& headers = {});
  support::RpcBench::Opened open_grpc(std::string method, const Headers& headers = {});
  static Answer answer(support::FakeExchange& exchange);
  static Answer grpc_answer(support::FakeExchange& exchange);
};

}  // namespace weir::oip
