#include "app/cluster_peers.h"

#include <memory>
#include <utility>

#include "cluster/node.h"

namespace weir::app {
namespace {

using base::Bytes;
using base::Code;

constexpr std::string_view kService = "weir.cluster.v1.Peer", kMethod = "Ask", kPath = "/weir.cluster.v1.Peer/Ask";
constexpr std::string_view kPeerKey = "weir-node-key";
constexpr size_t kLargestPromise = 512, kMostAtOnce = 256;

}  // namespace

void ClusterPeers::ask_by(net::Shard& shard, forward::NodeRelay& relay, std::string key) {
  if (!shard_) shard_ = &shard, relay_ = &relay, key_ = std::move(key);
}

void ClusterPeers::ask(const std::string& address, std::string request, cluster::Peers::Then then) {
  if (!shard_) return then(base::failure(Code::kUnavailable, "the server has not started"));
  shard_->post([this, address, request = std::move(request), then = std::move(then)]() mutable {
    wire::Fields fields;
    if (!key_.empty()) fields.add(kPeerKey, key_);
    relay_->ask(address, kPath, Bytes::adopt(std::move(request)), std::move(fields), cluster::Peers::kPatience,
                [then](base::Result<Bytes> answer) {
                  if (answer) return then(std::string(answer->view()));
                  then(base::failure(Code::kUnavailable,
                                     answer.error().text));  // whatever it is, it is no answer of the bucket
                });
  });
}

class PeerMethod::Waiting final : public wire::RpcListener {
 public:
  Waiting(PeerMethod& method, uint64_t number) : method_(method), number_(number) {}
  void on_message(wire::Rpc&, Bytes) override {}
  void on_close(wire::Rpc&) override { method_.waiting_.erase(number_); }

 private:
  PeerMethod& method_;
  const uint64_t number_;
};

void PeerMethod::add_to(wire::RpcServer& rpcs) {
  rpcs.add({std::string(kService), std::string(kMethod), wire::RpcKind::kUnary, this, "", "", "cluster",
            wire::Permission::kInfer});
}

void PeerMethod::call(wire::Rpc& rpc, Bytes message) {
  if (!key_.empty() && !cluster::same_mac(rpc.metadata().find(kPeerKey), key_))
    return rpc.finish(base::failure(Code::kPermissionDenied, "nodes of the cluster alone may ask this"));
  // Without a key nobody's writes are taken, and a promise is a line.
  const size_t largest = key_.empty() ? kLargestPromise : cluster::kLargestPeerMessage;
  if (message.size() > largest) return rpc.finish(base::invalid("the message is too long"));
  if (under_way_ >= kMostAtOnce) return rpc.finish(base::failure(Code::kUnavailable, "too many nodes ask at once"));
  const uint64_t number = ++last_;
  waiting_.emplace(number, &rpc);
  rpc.attach(std::make_unique<Waiting>(*this, number));
  auto then = [this, number](std::string text) {
    shard_.post([this, number, text = std::move(text)]() mutable { answer(number, std::move(text)); });
  };
  if (cluster_.answer_peer(std::string(message.view()), then))
    ++under_way_;
  else
    rpc.finish(base::failure(Code::kUnavailable, "the server is shutting down"));
}

void PeerMethod::answer(uint64_t number, std::string text) {
  --under_way_;
  auto node = waiting_.extract(number);
  if (node.empty()) return;
  node.mapped()->send(Bytes::adopt(std::move(text)));
  node.mapped()->finish({});
}

}  // namespace weir::app
