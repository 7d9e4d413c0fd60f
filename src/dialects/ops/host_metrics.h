// The machine in /metrics under the names of Triton's metrics: nv_cpu_utilization, nv_cpu_memory_{total,used}_bytes.
#pragma once

#include <cstdint>
#include <mutex>
#include <string>

namespace weir::ops {

// Any thread. Reads files of the system: never on a shard. `root` stands before /proc.
class HostLoad {
 public:
  explicit HostLoad(std::string root = "");
  // Utilization is that since the last call, or since this was made. Families that the system does not tell are left
  // out.
  void append_triton(std::string& out);

 private:
  struct Ticks {
    uint64_t busy = 0, all = 0;
  };
  Ticks ticks() const;

  const std::string root_;
  std::mutex mutex_;
  Ticks last_;         // under mutex_, as is the next
  double latest_ = 0;  // repeated where no tick has passed
};

}  // namespace weir::ops
