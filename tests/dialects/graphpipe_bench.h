// GraphPipe on one fake shard: a Bus with a recording Inbox behind every model, a Router with fake Exchanges in front,
// and flatbuffers' own parser as the other side.
#pragma once

#include <flatbuffers/idl.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "dialects/graphpipe/graphpipe.h"
#include "support/fake_wire.h"

namespace weir::graphpipe {

// Writes down each Call; answers with the script, or keeps it for the test to answer.
class ScriptedInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  std::vector<std::string> seen;
  std::vector<msg::Event> script;  // posted for each Call, if not empty
  int pokes = 0;

  void put(msg::Call* call) override;
  void poke() override { ++pokes; }
  void finish(msg::Call* call, msg::Event event) {
    std::erase(held, call);
    call->home->post_here({call, std::move(event)});
  }
};

// "add/1 rows=1 priority=2 | a INT32 [1,2] [1,2] | wants sum | with k='v'"
std::string describe(const msg::Call& call);
// "y INT32 [2] [1,2]": a tensor; several are separated by "; ".
std::vector<msg::Tensor> parse_tensors(std::string_view text);

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
  Schema schema;
  bool ready = true;
  std::unique_ptr<GraphPipe> graphpipe;

  ScriptedInbox& inbox(const std::string& model) { return *inboxes_.at(model); }
  void turn() { bus.turn(); }

  struct Closer {
    wire::Router* router;
    void operator()(support::FakeExchange* x) const;
  };
  using Opened = std::unique_ptr<support::FakeExchange, Closer>;
  Opened open(std::string method, std::string target, std::string_view body = {}, std::string_view accept = {});

 private:
  void add(msg::ModelSpec spec);
  std::shared_ptr<bus::Catalog> catalog_ = std::make_shared<bus::Catalog>();
  std::map<std::string, ScriptedInbox*> inboxes_;
};

}  // namespace weir::graphpipe
