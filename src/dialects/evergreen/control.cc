// DROP, SET_TTL and CANCEL: what the protocol's description lists as possible extensions, for clients that know them.
//
//   DROP     input "node" (any number): the content goes now; "tree": and that of descendants that nothing else holds
//   SET_TTL  the same inputs, config weir.evergreen.v1.TtlConfig: "tree" after that time
//   CANCEL   input "output": the action that makes that node ends; what it has said so far stands
#include "dialects/evergreen/action.h"
#include "evergreen_config.pb.h"

namespace weir::evergreen {
namespace {

using base::Status;

constexpr std::string_view kTtl = "weir.evergreen.v1.TtlConfig";

// An action that does its work at once.
class Instant : public Action {
 public:
  using Action::Action;

 private:
  Status go_on() override {
    done();
    return {};
  }
};

class Drop final : public Instant {
 public:
  using Instant::Instant;

 private:
  Status begin() override {
    using DropScope = NodeGraph::DropScope;
    for (const NamedNode& in : request_.inputs) {
      Node* node = session_.graph().find(in.id);
      if (!node) return base::failure(base::Code::kNotFound, "there is no node '" + in.id + "'");
      Status s = session_.graph().drop(*node, in.name == "tree" ? DropScope::kWithChildren : DropScope::kNode);
      if (!s.ok()) return s;
    }
    return {};
  }
};

class SetTtl final : public Instant {
 public:
  using Instant::Instant;

 private:
  Status begin() override {
    ::weir::evergreen::v1::TtlConfig ttl;
    const Packed* packed = config(kTtl);
    if (!packed || !ttl.ParseFromString(packed->value)) return base::invalid("needs a " + std::string(kTtl));
    for (const NamedNode& in : request_.inputs) {
      if (!session_.graph().find(in.id))
        return base::failure(base::Code::kNotFound, "there is no node '" + in.id + "'");
      session_.ttls().set(in.id, std::chrono::milliseconds(ttl.milliseconds()));
    }
    return {};
  }
};

class Cancel final : public Instant {
 public:
  using Instant::Instant;

 private:
  Status begin() override {
    for (const NamedNode& in : request_.inputs) {
      Node* node = session_.graph().find(in.id);
      if (!node || !node->claimed())
        return base::failure(base::Code::kNotFound, "no action makes the node '" + in.id + "'");
      // One that is over needs no cancelling: the client may not have read its end yet.
      if (Action* action = session_.actions().writer(*node)) action->cancel();
    }
    return {};
  }
};

}  // namespace

std::unique_ptr<Action> make_drop(Session& session, ActionRequest&& request) {
  return std::make_unique<Drop>(session, std::move(request));
}
std::unique_ptr<Action> make_set_ttl(Session& session, ActionRequest&& request) {
  return std::make_unique<SetTtl>(session, std::move(request));
}
std::unique_ptr<Action> make_cancel(Session& session, ActionRequest&& request) {
  return std::make_unique<Cancel>(session, std::move(request));
}

}  // namespace weir::evergreen
