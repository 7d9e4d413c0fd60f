#include "cluster/posted_peers.h"

#include <utility>

namespace weir::cluster {

void PostedPeers::ask(const std::string& address, std::string request, Then then) {
  const uint64_t number = ++last_;
  auto late = [this, number] { answered(number, base::failure(base::Code::kUnavailable, "the node does not answer")); };
  waiting_[number] = {std::move(then), loop_.at(loop_.now() + kPatience, late)};
  if (!ask_) return;
  ask_(address, std::move(request), [this, number](base::Result<std::string> answer) {
    loop_.post([this, number, answer = std::move(answer)] { answered(number, answer); });
  });
}

void PostedPeers::answered(uint64_t number, base::Result<std::string> answer) {
  auto node = waiting_.extract(number);
  if (node.empty()) return;
  loop_.cancel(node.mapped().timer);
  node.mapped().then(std::move(answer));
}

}  // namespace weir::cluster
