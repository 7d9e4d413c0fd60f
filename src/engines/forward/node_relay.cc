#include "engines/forward/node_relay.h"

#include <utility>

#include "base/log.h"
#include "engines/forward/oip/grpc_call.h"

namespace weir::forward {

using base::Code;
using base::Status;

void NodeTargets::set(const std::vector<std::string>& urls) {
  std::map<std::string, std::shared_ptr<Target>> next;
  for (const auto& text : urls) {
    if (auto known = find(text)) {
      next[text] = std::move(known);
      continue;
    }
    Options options;
    options.kind = KindName::kWeir;
    auto url = net::parse_url(text);
    // Directory::set() has told of it.
    if (!url || url->target != "/" || (tls_ && url->scheme != net::Url::Scheme::kHttps)) continue;
    options.origins.push_back(*url);
    auto target = Target::make(std::move(options), "");
    if (!target) {
      base::log::warning("a node's address cannot be used", {{"reason", target.error().text}});
      continue;
    }
    if (!key_.empty()) (*target)->authorization = "Bearer " + key_;
    if (tls_) (*target)->tls = tls_;
    next[text] = std::move(*target);
  }
  std::lock_guard lock(mutex_);
  targets_ = std::move(next);
}

std::shared_ptr<Target> NodeTargets::find(const std::string& url) const {
  std::lock_guard lock(mutex_);
  auto found = targets_.find(url);
  return found == targets_.end() ? nullptr : found->second;
}

class NodeRelay::NodeCall final : public wire::Relay::Call, private GrpcCall {
 public:
  NodeCall(NodeRelay& relay, std::string url, Node& node, Receiver& receiver)
      : GrpcCall(relay.slabs_, kLargestMessage), relay_(relay), url_(std::move(url)), node_(node), receiver_(receiver) {
    ++node_.calls;
    arm();
  }
  ~NodeCall() override {
    relay_.shard_.env().cancel(timer_);
    HttpCall::cancel();
    --node_.calls;
    if (gone_) *gone_ = true;
  }

  Status start(wire::Rpc& rpc, std::string_view path, const base::Bytes& message) override;
  void resume() override { let_go(); }

 private:
  // The receiver may end the call.
  Next on_message(base::Bytes message) override {
    bool gone = false;
    gone_ = &gone;
    receiver_.on_message(std::move(message));
    if (gone) return Next::kOver;
    gone_ = nullptr;
    return Next::kGoOn;
  }
  // A node that has stopped keeps its connections, and is gone for all that.
  void look() {
    timer_ = base::TimerId::kNone;
    if (!under_way()) return;
    if (relay_.targets_.find(url_) == node_.target) return arm();
    lost_ = true;
    give_up_late(base::failure(Code::kUnavailable, "the node is gone"));
  }
  void arm() {
    base::Env& env = relay_.shard_.env();
    timer_ = env.at(env.now() + kLookEvery, [this] { look(); });
  }
  void on_over(Status status, forward::From from) override {
    const bool its_own = !lost_ && (from == forward::From::kOrigin || from == forward::From::kBusy);
    receiver_.on_over(std::move(status), its_own ? Source::kNode : Source::kTransport);
  }
  bool holds() const override { return receiver_.full(); }

  static constexpr base::Duration kLookEvery = std::chrono::milliseconds(500);

  NodeRelay& relay_;
  const std::string url_;
  Node& node_;
  Receiver& receiver_;
  bool* gone_ = nullptr;  // of who is called with a message
  bool lost_ = false;
  base::TimerId timer_ = base::TimerId::kNone;
};

Status NodeRelay::NodeCall::start(wire::Rpc& rpc, std::string_view path, const base::Bytes& message) {
  wire::Fields fields;
  const wire::RequestRecord& record = rpc.exchange().record();
  if (!record.traceparent.empty()) fields.add("traceparent", record.traceparent);
  add_deadline(rpc.deadline(), relay_.shard_.env().now(), fields);
  fields.add(wire::kRelayed, "1");
  relay_.introduce_(rpc.exchange().request(), fields);
  const auto prefix = wire::grpc_prefix(wire::GrpcFlag::kPlain, uint32_t(message.size()));
  std::vector<base::Bytes> body;
  body.push_back(base::Bytes::copy_of({reinterpret_cast<const char*>(prefix.data()), prefix.size()}));
  if (!message.empty()) body.push_back(message);
  return GrpcCall::start(*node_.conn, path, std::move(body), std::move(fields));
}

// A call's destructor, which leaves its connection, comes before.
NodeRelay::~NodeRelay() = default;

// Nodes that are not there any more, once they have no calls.
void NodeRelay::forget_others() {
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    if (targets_.find(it->first) == it->second->target) {
      ++it;
      continue;
    }
    leaving_.push_back(std::move(it->second));
    it = nodes_.erase(it);
  }
  std::erase_if(leaving_, [](const auto& node) { return node->calls == 0; });
}

base::Result<std::unique_ptr<wire::Relay::Call>> NodeRelay::make_call(const std::string& url, Receiver& receiver) {
  forget_others();
  auto target = targets_.find(url);
  if (!target) return base::failure(Code::kUnavailable, "the node is not there");
  auto& node = nodes_[url];
  if (!node) {
    node = std::make_unique<Node>();
    node->target = std::move(target);
    node->conn = std::make_unique<OriginConn>(shard_, *node->target, node->target->origins.front());
  }
  return std::unique_ptr<Call>(std::make_unique<NodeCall>(*this, url, *node, receiver));
}

}  // namespace weir::forward
