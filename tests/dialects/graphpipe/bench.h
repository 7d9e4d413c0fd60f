// GraphPipe on one fake shard: a Bus with a recording Inbox behind every model, a Router with fake Exchanges in front,
// and flatbuffers' own parser as the other side.
#pragma once

#include <flatbuffers/idl.h>

#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "dialects/graphpipe/graphpipe.h"
#include "support/routed_exchange.h"
#include "support/scripted_models.h"

namespace weir::graphpipe {

using support::outputs;

// Messages of proto/graphpipe.fbs as JSON.
class Schema {
 public:
  Schema();
  std::string request(const std::string& json);                        // JSON -> flatbuffer
  std::string text(const std::string& root, const std::string& body);  // flatbuffer -> JSON; checked by the verifier

 private:
  flatbuffers::Parser parser_;
};

class Bench {
 public:
  explicit Bench(GraphPipeOptions options = {});
  ~Bench();

  base::FakeEnv env;
  wire::Router router{env};
  bus::Bus bus{env, base::ShardId{0}, [] {}};
  support::ScriptedModels models;
  Schema schema;
  bool ready = true;
  std::unique_ptr<GraphPipe> graphpipe;

  support::ScriptedInbox& inbox(const std::string& model) { return models[model]; }
  void turn() { bus.turn(); }

  using Opened = support::RoutedExchange;
  Opened open(std::string method, std::string target, std::string_view body = {}, std::string_view accept = {});
};

}  // namespace weir::graphpipe
