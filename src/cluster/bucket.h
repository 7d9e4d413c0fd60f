// Bucket: a table of keys that all nodes share, whose entries have revisions: the one thing that this room asks of
// NATS. JetStream's key-value bucket is one (nats_bucket.h), the simulation's another.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace weir::cluster {

class Bucket {
 public:
  struct KeyValue {
    std::string key, value;
    uint64_t revision = 0;  // grows with every write of any key
    bool erased = false;    // a mark that it was there
  };
  // The new revision. ABORTED: the key has another revision than was expected, or an earlier try of this very write has
  // come through. UNAVAILABLE: nobody knows whether it was written, now or later.
  using OnWritten = std::function<void(base::Result<uint64_t>)>;
  // NOT_FOUND: the key was never written, or its time is over. UNAVAILABLE.
  using OnRead = std::function<void(base::Result<KeyValue>)>;

  // All answer later, on the caller's thread, once. `expected`: the revision that the key has now, a mark's too; 0:
  // none.
  virtual void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) = 0;
  // Leaves a mark. `expected` may be kAny: whatever revision the key has, also none.
  static constexpr uint64_t kAny = ~uint64_t(0);
  virtual void erase(const std::string& key, uint64_t expected, OnWritten then) = 0;
  virtual void read(const std::string& key, OnRead then) = 0;

 protected:
  ~Bucket() = default;
};

}  // namespace weir::cluster
