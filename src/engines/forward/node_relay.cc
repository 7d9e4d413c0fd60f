#include "engines/forward/node_relay.h"

#include <utility>

#include "base/log.h"
#include "engines/forward/oip/grpc_call.h"
#include "marshal/tenant.h"

namespace weir::forward {

using base::Code;
using base::Status;

namespace {

std::vector<base::Bytes> framed(base::Bytes message) {
  const auto prefix = wire::grpc_prefix(wire::GrpcFlag::kPlain, uint32_t(message.size()));
  std::vector<base::Bytes> body;
  body.push_back(base::Bytes::copy_of({reinterpret_cast<const char*>(prefix.data()), prefix.size()}));
  if (!message.empty()) body.push_back(std::move(message));
  return body;
}

}  // namespace

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
    if (!key_.empty()) (*target)->set_key("authorization", key_);
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
    if (lane_) --lane_->calls;
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
    using forward::From;
    const bool answered = from == From::kOrigin || from == From::kBusy || from == From::kHere;
    receiver_.on_over(std::move(status), answered && !lost_ ? Source::kNode : Source::kTransport);
  }
  bool holds() const override { return receiver_.full(); }

  static constexpr base::Duration kLookEvery = std::chrono::milliseconds(500);

  NodeRelay& relay_;
  const std::string url_;
  Node& node_;
  Lane* lane_ = nullptr;  // from start() on
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
  lane_ = &relay_.lane_of(node_, marshal::tenant_of(rpc.exchange().request()));
  ++lane_->calls;
  return GrpcCall::start(*lane_->conn, path, framed(message), std::move(fields));
}

class NodeRelay::Question final : private GrpcCall {
 public:
  Question(NodeRelay& relay, uint64_t number, Node& node, Answered then)
      : GrpcCall(relay.slabs_, kLargestMessage), relay_(relay), number_(number), node_(node), then_(std::move(then)) {
    ++node_.calls;
  }
  ~Question() {
    relay_.shard_.env().cancel(timer_);
    HttpCall::cancel();
    --node_.calls;
  }

  void start(std::string_view path, base::Bytes message, wire::Fields fields, base::Duration patience) {
    base::Env& env = relay_.shard_.env();
    timer_ = env.at(env.now() + patience, [this] {
      timer_ = base::TimerId::kNone;
      give_up_late(base::failure(Code::kUnavailable, "the node does not answer"));
    });
    add_deadline(env.now() + patience, env.now(), fields);
    Status status = GrpcCall::start(relay_.own_conn(node_), path, framed(std::move(message)), std::move(fields));
    if (!status.ok()) over(status);
  }

 private:
  Next on_message(base::Bytes message) override {
    answer_ = std::move(message);
    return Next::kGoOn;
  }
  void on_over(Status status, forward::From) override { over(status); }
  // This is gone afterwards.
  void over(const Status& status) {
    auto self = relay_.questions_.extract(number_);
    Answered then = std::move(then_);
    base::Bytes answer = std::move(answer_);
    self.mapped().reset();
    status.ok() ? then(std::move(answer)) : then(status);
  }

  NodeRelay& relay_;
  const uint64_t number_;
  Node& node_;
  Answered then_;
  base::Bytes answer_;
  base::TimerId timer_ = base::TimerId::kNone;
};

void NodeRelay::ask(const std::string& url, std::string_view path, base::Bytes message, wire::Fields fields,
                    base::Duration patience, Answered then) {
  Node* node = node_at(url);
  if (!node) return then(base::failure(Code::kUnavailable, "the node is not there"));
  const uint64_t number = ++last_question_;
  auto& question = questions_[number] = std::make_unique<Question>(*this, number, *node, std::move(then));
  question->start(path, std::move(message), std::move(fields), patience);
}

NodeRelay::NodeRelay(net::Shard& shard, base::SlabSource& slabs, const NodeTargets& targets, Introduce introduce)
    : shard_(shard), slabs_(slabs), targets_(targets), introduce_(std::move(introduce)) {}

// A call's destructor, which leaves its connection, comes before.
NodeRelay::~NodeRelay() {
  shard_.env().cancel(prune_);
  questions_.clear();
}

// Nodes that are not there any more leave once they have no calls.
void NodeRelay::forget_others() {
  for (auto it = nodes_.begin(); it != nodes_.end();) {
    if (targets_.find(it->first) == it->second->target) {
      ++it;
      continue;
    }
    leaving_.push_back(std::move(it->second));
    it = nodes_.erase(it);
  }
  if (!leaving_.empty()) prune();
}

NodeRelay::Lane& NodeRelay::lane_of(Node& node, uint64_t tenant) {
  auto found = node.lanes.find(tenant);
  if (found == node.lanes.end() && node.lanes.size() >= kMostClients) {
    prune();
    tenant %= kSharedLanes;
  }
  Lane& lane = node.lanes[tenant];
  if (!lane.conn) lane.conn = std::make_unique<OriginConn>(shard_, *node.target, node.target->origins.front());
  return lane;
}

OriginConn& NodeRelay::own_conn(Node& node) {
  if (!node.own) node.own = std::make_unique<OriginConn>(shard_, *node.target, node.target->origins.front());
  return *node.own;
}

// Later, for one of the connections may be on the stack.
void NodeRelay::prune() {
  if (prune_ != base::TimerId::kNone) return;
  prune_ = shard_.env().at(shard_.env().now(), [this] {
    prune_ = base::TimerId::kNone;
    std::erase_if(leaving_, [](const auto& node) { return node->calls == 0; });
    for (auto& [url, node] : nodes_)
      if (node->lanes.size() >= kMostClients)
        std::erase_if(node->lanes, [](const auto& lane) { return lane.second.calls == 0; });
  });
}

NodeRelay::Node* NodeRelay::node_at(const std::string& url) {
  forget_others();
  auto target = targets_.find(url);
  if (!target) return nullptr;
  auto& node = nodes_[url];
  if (!node) {
    node = std::make_unique<Node>();
    node->target = std::move(target);
  }
  return node.get();
}

base::Result<std::unique_ptr<wire::Relay::Call>> NodeRelay::make_call(const std::string& url, Receiver& receiver) {
  Node* node = node_at(url);
  if (!node) return base::failure(Code::kUnavailable, "the node is not there");
  return std::unique_ptr<Call>(std::make_unique<NodeCall>(*this, url, *node, receiver));
}

}  // namespace weir::forward
