// PostedPeers: Peers whose answers come on any thread, or never: they are brought to the loop, in time.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "cluster/loop.h"
#include "cluster/peers.h"

namespace weir::cluster {

class PostedPeers final : public Peers {
 public:
  using Ask = std::function<void(const std::string& address, std::string request, Then then)>;

  // `loop` outlives this; `ask` may be null: then nobody answers.
  PostedPeers(Loop& loop, Ask ask) : loop_(loop), ask_(std::move(ask)) {}

  void ask(const std::string& address, std::string request, Then then) override;

 private:
  struct Waiting {
    Then then;
    base::TimerId timer;
  };
  void answered(uint64_t number, base::Result<std::string> answer);

  Loop& loop_;
  const Ask ask_;
  std::map<uint64_t, Waiting> waiting_;
  uint64_t last_ = 0;
};

}  // namespace weir::cluster
