// GraphSet: what is queued again and again as graphs of a device, by key. Captured before the first use, or when a key
// is wanted for the second time: the first time loads what a capture must not, and what is never wanted again costs no
// graph. A device that cannot capture goes without, and says so once.
#pragma once

#include <functional>
#include <map>
#include <set>

#include "device/device.h"
#include "engines/llm/options.h"

namespace weir::llm::cuda {

class GraphSet {
 public:
  // Queues operations on the stream; the same for the same key, with the same addresses.
  using Queue = std::function<base::Status()>;

  // Both outlive this.
  GraphSet(device::Device& device, const device::Stream& stream, Graphs graphs)
      : device_(device), stream_(stream), wanted_(graphs == Graphs::kOn) {}

  bool wanted() const { return wanted_; }
  size_t size() const { return graphs_.size(); }
  bool has(uint64_t key) const { return graphs_.contains(key); }
  // Notes that it is wanted; whether that was so before, and a graph is worth its while.
  bool wanted_again(uint64_t key) { return wanted_ && !seen_.insert(key).second; }
  // By way of a graph where there is one.
  base::Status run(uint64_t key, const Queue& queue);
  // Makes it now, without running it. Errors: of a device at fault.
  base::Status make(uint64_t key, const Queue& queue);
  // Addresses that they have are gone; each is made again when it is wanted.
  void clear() { graphs_.clear(); }

 private:
  device::Device& device_;
  const device::Stream& stream_;
  bool wanted_;
  std::map<uint64_t, device::Graph> graphs_;
  std::set<uint64_t> seen_;
};

}  // namespace weir::llm::cuda
