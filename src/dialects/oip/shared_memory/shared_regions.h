// SharedRegions: the regions that clients have registered, by owner and name; one table for all shards. Any thread.
//
// An owner is the tenant of the key that a request has shown. Clients of this machine that show no key are one owner:
// one of them may register by gRPC over ::1 and infer by REST over 127.0.0.1. What one owner has registered does not
// exist for another, and each has half of the room at most. A region takes room until the last tensor in it has gone,
// also after it was unregistered. A thread of its own unmaps regions, and frees their objects where those were
// unlinked: the system takes up to 0.4 s for each GiB, on whichever thread that is.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "dialects/oip/shared_memory/shared_region.h"
#include "wire/exchange.h"

namespace weir::oip {

// The clients that may share memory with the server.
enum class Sharing : uint8_t {
  kLocal,  // clients of this machine: loopback and unix sockets, but not through a proxy
  kNobody,
  kEverybody,
};

class SharedRegions {
 public:
  static constexpr uint32_t kMostRegions = 1024;  // of all owners; each keeps a descriptor open
  static constexpr size_t kLongestName = 256;

  // `bytes`: of the regions of all owners. Borrowed; read with each registration.
  SharedRegions(const Sharing& sharing, const uint64_t& bytes);
  ~SharedRegions();

  // Errors: UNIMPLEMENTED where the client may not share memory; the text names the setting.
  base::Status check(const wire::Request& request) const;
  bool offered() const { return sharing_ != Sharing::kNobody; }

  // Makes the region by `map`, unless its name is taken or there is no room. Errors: ALREADY_EXISTS,
  // RESOURCE_EXHAUSTED, INVALID_ARGUMENT; those of check() and of `map`.
  using Map = std::function<base::Result<std::unique_ptr<SharedRegion>>(RegionRecord)>;
  base::Status add(const wire::Request& request, RegionRecord record, const Map& map = map_system_region);
  // A region that is not there is no error, as in Triton.
  void remove(const wire::Request& request, RegionKind kind, std::string_view name);
  void remove_all(const wire::Request& request, RegionKind kind);
  // All of that kind, or the one of that name. Errors: NOT_FOUND.
  base::Result<std::vector<RegionRecord>> list(const wire::Request& request, RegionKind kind,
                                               std::string_view name) const;
  // Finds the memory of `range`, which lies in its region then. Errors: NOT_FOUND, INVALID_ARGUMENT; those of check().
  base::Status find(const wire::Request& request, RegionRange& range) const;

 private:
  using Key = std::pair<uint64_t, std::string>;  // owner, name

  // The room that regions take; a region keeps it.
  struct Usage {
    struct Share {
      uint64_t bytes = 0;
      uint32_t regions = 0;
    };
    std::mutex mutex;
    Share all;
    std::map<uint64_t, Share> owners;

    base::Status take(uint64_t owner, uint64_t bytes, uint64_t limit);
    void give(uint64_t owner, uint64_t bytes);
  };
  class Room;
  class Unmapper;
  struct Unmap;

  const Sharing& sharing_;
  const uint64_t& bytes_;
  const std::shared_ptr<Usage> usage_ = std::make_shared<Usage>();
  const std::shared_ptr<Unmapper> unmapper_;
  mutable std::mutex mutex_;
  std::map<Key, std::shared_ptr<SharedRegion>> regions_;  // under mutex_
};

}  // namespace weir::oip
