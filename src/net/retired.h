// Retired: the Residents of one shard that have ended, until they are released, and then until they are at rest.
//
// A turn may end hundreds of connections, in 10 µs each, and releasing one may take fifteen times as long (OpenSSL's
// memory of a handshake, a hundred requests of HTTP/2). So they are released in several turns. The shard's thread.
#pragma once

#include <deque>
#include <memory>
#include <utility>
#include <vector>

#include "base/env.h"
#include "net/resident.h"

namespace weir::net {

class Retired {
 public:
  void add(std::unique_ptr<Resident> one) { line_.push_back(std::move(one)); }
  bool has_line() const { return !line_.empty(); }
  // Releases as many as fit in `time`, and at least a 32nd of the line, so that the line does not grow without bound.
  void release_some(base::Duration time);
  void release_all();

 private:
  void release_one();
  void free_resting();

  std::deque<std::unique_ptr<Resident>> line_;
  std::vector<std::unique_ptr<Resident>> released_;
};

}  // namespace weir::net
