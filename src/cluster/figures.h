// Figures: what the metrics of this room say. Any thread reads them; the cluster's writes them.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace weir::cluster {

struct Figures {
  std::atomic<uint64_t> refused{0}, joins{0}, leaves{0}, fences{0}, losses{0};
  std::atomic<bool> by_another{false};  // node's way to the bucket
  std::atomic<uint64_t> named{0};       // Promises::named()
  // Sessions, and stored responses.
  std::atomic<uint64_t> owned{0}, unkept{0}, taken{0}, refused_sessions{0}, lost_turns{0};
  std::atomic<uint64_t> unkept_responses{0}, lost_responses{0}, refused_responses{0}, left_responses{0};

  struct Now {
    uint64_t nodes = 0;
    bool connected = false, leased = false;
  };
  // Appends the families of Prometheus' text.
  void write(std::string& out, Now now) const;
};

}  // namespace weir::cluster
