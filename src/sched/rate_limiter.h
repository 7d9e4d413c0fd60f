// RateLimiter: instances of different models share resources, by name and count, and one runs a batch only while it has
// all that its group asks for (Triton's rate_limiter of an instance_group). What is asked for is given out by priority:
// an instance of priority 2 has a turn for two of one of priority 1.
//
// A resource is there once on each device, or once in all where it is global. There are as many of it as the most that
// one instance asks for, or as the settings say.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "sched/engine.h"

namespace weir::sched {

struct ResourceNeed {
  std::string name;
  bool global = false;
  uint32_t count = 0;
};
struct RateLimit {
  std::vector<ResourceNeed> resources;
  uint32_t priority = 0;  // 1 is the most urgent; 0 = 1
};

class RateLimiter {
 public:
  // Counts by name, of each device; those that are not here go by what is asked for.
  explicit RateLimiter(const std::map<std::string, uint32_t>& counts = {}) : counts_(counts.begin(), counts.end()) {}

  // One instance. Made and destroyed on any thread; acquired and released by one thread at a time.
  class Instance {
   public:
    // Waits until it has its resources. Those that wait go by their turns; one whose resources are free need not wait
    // for another that waits for different ones.
    void acquire();
    void release();
    ~Instance();

   private:
    friend class RateLimiter;
    Instance(std::shared_ptr<RateLimiter> limiter, const RateLimit& limit, std::string_view place);

    const std::shared_ptr<RateLimiter> limiter_;
    const uint64_t stride_;
    std::map<std::string, uint32_t> needs_;  // by name and device
    std::condition_variable turn_;
    uint64_t pass_ = 0;     // under the limiter's mutex, as the next: what it has had of its turns
    bool granted_ = false;  // its resources are its own
    bool joined_ = false;   // counted in instances_
  };
  // Errors: FAILED_PRECONDITION, it needs more of a resource than there will ever be.
  static base::Result<std::unique_ptr<Instance>> join(std::shared_ptr<RateLimiter> limiter, const RateLimit& limit,
                                                      std::string_view place);

  size_t waiting() const;
  // By name and device, "R1 cpu", "R2" of a global one: how many are taken, of how many.
  std::map<std::string, std::pair<uint32_t, uint32_t>> used() const;

 private:
  struct Resource {
    std::multimap<uint32_t, const Instance*> asked;  // by how many
    uint32_t taken = 0;
    uint64_t awaited = 0;  // the last round of grant() in which one has to wait for it
  };
  uint32_t most(const std::string& key) const;
  bool is_free(const std::pair<const std::string, uint32_t>& need) const;
  void grant();

  const std::map<std::string, uint32_t, std::less<>> counts_;
  mutable std::mutex mutex_;
  std::map<std::string, Resource> resources_;  // under mutex_, as the rest
  std::vector<Instance*> waiting_;             // by turns, then as they came; has room for all
  size_t instances_ = 0;
  uint64_t pass_ = 0;   // of the last turn
  uint64_t round_ = 0;  // of grant()
};

// An engine that steps while it has its resources. It prepares no batch beside another: depth() is 1.
std::unique_ptr<Engine> make_rate_limited(std::unique_ptr<Engine> engine,
                                          std::unique_ptr<RateLimiter::Instance> instance);

}  // namespace weir::sched
