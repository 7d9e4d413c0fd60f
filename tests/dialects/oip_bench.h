// The whole dialect on one fake shard: a Bus with a recording Inbox behind every model, a Router and an RpcServer with
// fake Exchanges in front.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/fake_env.h"
#include "dialects/oip/oip.h"
#include "dialects/oip/trace.h"
#include "marshal/json_tensor.h"
#include "support/fake_wire.h"
#include "support/rpc_wire.h"

namespace weir::oip {

// Writes down each Call; answers with the script, or keeps it for the test to answer.
class ScriptedInbox final : public msg::Inbox {
 public:
  std::vector<msg::Call*> held;
  std::vector<std::string> seen;
  std::vector<msg::Event> script;  // posted for each Call, if not empty
  int pokes = 0;

  void put(msg::Call* call) override;
  void poke() override { ++pokes; }
  void post(msg::Call* call, msg::Event event) { call->home->post_here({call, std::move(event)}); }
  void finish(msg::Call* call, msg::Event event) {
    std::erase(held, call);
    post(call, std::move(event));
  }
};

// "add/1 id=7 rows=1 | a INT32 [1,2] [1,2] | wants y,z | priority=1"
std::string describe(const msg::Call& call);
// "y INT32 [2] [1,2]": a tensor; several are separated by "; ".
std::vector<msg::Tensor> parse_tensors(std::string_view text);

class FakeControl final : public Control {
 public:
  bool is_ready = true;
  std::vector<std::string> asked;
  std::vector<Done> waiting;

  bool ready() const override { return is_ready; }
  void load(const std::string& model, LoadParameters parameters, Done done) override;
  void unload(const std::string& model, Dependents dependents, Done done) override;
};

class OipBench {
 public:
  OipBench();
  ~OipBench();

  support::RpcBench wire;
  bus::Bus bus{wire.env, base::ShardId{0}, [] {}};
  FakeControl control;
  Traces traces;
  std::unique_ptr<Oip> oip;

  ScriptedInbox& inbox(const std::string& model) { return *inboxes_.at(model); }
  // What the model's Inbox has seen; nothing for a model that is not there.
  std::vector<std::string> seen(const std::string& model) {
    auto at = inboxes_.find(model);
    return at == inboxes_.end() ? std::vector<std::string>() : at->second->seen;
  }
  bus::Served& served(const std::string& model) { return *catalog_->models.at(model).preferred; }
  void turn() { bus.turn(); }
  void add(msg::ModelSpec spec);

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

 private:
  std::shared_ptr<bus::Catalog> catalog_ = std::make_shared<bus::Catalog>();
  std::map<std::string, ScriptedInbox*> inboxes_;
};

}  // namespace weir::oip
