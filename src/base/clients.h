// Clients: the table of all clients of the server (base/client.h). It is a tree, so that peers cannot make it slow by
// their choice of addresses.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "base/client.h"

namespace weir::base {

// Any thread. Outlives every ClientRef and every slab that is charged.
class Clients {
 public:
  // The client of that name, from now on in the table. What it was first said to be it stays: limited or not.
  ClientRef enter(std::string_view name, Client::Limited limited);
  size_t size() const;

 private:
  void prune();

  mutable std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Client>, std::less<>> clients_;
  size_t prune_at_ = 64;
};

}  // namespace weir::base
