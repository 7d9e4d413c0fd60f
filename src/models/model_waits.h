// ModelWaits: which models wait for which others: for the answer to a request that a model makes while it runs, or for
// a load that it has asked for. A handle: its copies share what is noted. Any thread.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

namespace weir::models {

class ModelWaits {
 public:
  // `model` waits for `other` until what is returned is destroyed.
  std::shared_ptr<const void> begin(const std::string& model, const std::string& other) const;

  // The model that waits, and the one that it waits for.
  using Waits = std::multiset<std::pair<std::string, std::string>>;
  Waits now() const;

 private:
  struct Noted {
    std::mutex mutex;
    Waits waits;  // under mutex
  };
  std::shared_ptr<Noted> noted_ = std::make_shared<Noted>();
};

}  // namespace weir::models
