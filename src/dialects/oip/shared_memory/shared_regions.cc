#include "dialects/oip/shared_memory/shared_regions.h"

#include <algorithm>
#include <atomic>

#include "base/units.h"
#include "base/workers.h"
#include "marshal/tenant.h"
#include "wire/access.h"
#include "wire/text.h"

namespace weir::oip {
namespace {

using base::Code;
using base::failure;
using base::invalid;
using base::Status;

constexpr uint64_t kThisMachine = 1;  // the owner; tenants of keys have even numbers

// A proxy that the server does not know as one still says so, mostly. One that it knows (http.trusted_proxies,
// http.proxy_protocol) has given the peer its client's address.
bool came_through_proxy(const wire::Request& request) {
  for (auto field : {"forwarded", "x-forwarded-for", "x-real-ip", "via"})
    if (request.fields.has(field)) return true;
  return false;
}

bool is_local(const wire::Request& request) {
  const wire::PeerInfo* peer = request.peer;
  if (!peer || came_through_proxy(request)) return false;
  return peer->address == "unix" ||
         (peer->network == wire::Network::kLoopback && wire::is_loopback_name(peer->address));
}

uint64_t owner_of(const wire::Request& request) {
  if (request.identity && request.identity->tenant_number != 0) return request.identity->tenant_number;
  return is_local(request) ? kThisMachine : marshal::tenant_of(request);
}

std::string in_quotes(std::string_view name) {
  return "'" + std::string(name.substr(0, SharedRegions::kLongestName)) + "'";
}

Status full(const std::string& what) {
  return failure(Code::kResourceExhausted,
                 "shared memory regions take " + what + ": unregister some, or raise " + "oip.shared_memory_bytes");
}

std::string word(RegionKind kind) { return kind == RegionKind::kSystem ? "system" : "cuda"; }

}  // namespace

// The room of one region, given back when the region goes.
class SharedRegions::Room {
 public:
  Room(std::shared_ptr<Usage> usage, uint64_t owner, uint64_t bytes)
      : usage_(std::move(usage)), owner_(owner), bytes_(bytes) {}
  Room(const Room&) = delete;
  ~Room() { usage_->give(owner_, bytes_); }

 private:
  const std::shared_ptr<Usage> usage_;
  const uint64_t owner_, bytes_;
};

// Destroys regions. Any thread. Small ones, too: the object behind one may be large, and end with it.
class SharedRegions::Unmapper {
 public:
  // `room`: of the region, or null. It is given back at once, so that a client can register the next region in the
  // place of one that it has unregistered, unless regions of `most` bytes wait to be unmapped.
  void destroy(std::unique_ptr<SharedRegion> region, std::shared_ptr<Room> room, uint64_t most) {
    const uint64_t cost = room ? std::max(region->record().bytes, most / kMostRegions) : 0;
    if (waiting_.fetch_add(cost) + cost <= most) room.reset();
    SharedRegion* gone = region.get();
    workers_.post([this, gone, cost, room] {
      delete gone;
      waiting_ -= cost;
    });
    (void)region.release();
  }

 private:
  std::atomic<uint64_t> waiting_{0};
  base::Workers workers_{1};  // ends first: it uses the rest
};

// The deleter of a region. The region's weak reference to itself keeps this until the thread of the Unmapper has
// destroyed the region, and that thread must not end the Unmapper.
struct SharedRegions::Unmap {
  std::shared_ptr<Unmapper> unmapper;
  std::shared_ptr<Room> room;
  uint64_t most;

  void operator()(SharedRegion* region) {
    const auto by = std::move(unmapper);
    by->destroy(std::unique_ptr<SharedRegion>(region), std::move(room), most);
  }
};

SharedRegions::SharedRegions(const Sharing& sharing, const uint64_t& bytes)
    : sharing_(sharing), bytes_(bytes), unmapper_(std::make_shared<Unmapper>()) {}

SharedRegions::~SharedRegions() = default;

Status SharedRegions::Usage::take(uint64_t owner, uint64_t bytes, uint64_t limit) {
  std::lock_guard lock(mutex);
  auto known = owners.find(owner);
  const Share own = known == owners.end() ? Share() : known->second;
  auto too_much = [bytes](const Share& share, uint64_t most) {
    return share.bytes > most || bytes > most - share.bytes;
  };
  if (all.regions >= kMostRegions) return full("their " + std::to_string(kMostRegions) + " places");
  if (own.regions >= kMostRegions / 2)
    return full(std::to_string(kMostRegions / 2) + " places, the most that one client has");
  if (too_much(all, limit)) return full("their " + base::show_size(limit));
  if (too_much(own, limit / 2)) return full(base::show_size(limit / 2) + ", the most that one client has");
  all = {all.bytes + bytes, all.regions + 1};
  owners[owner] = {own.bytes + bytes, own.regions + 1};
  return {};
}

void SharedRegions::Usage::give(uint64_t owner, uint64_t bytes) {
  std::lock_guard lock(mutex);
  auto own = owners.find(owner);
  all.bytes -= bytes, own->second.bytes -= bytes;
  --all.regions;
  if (--own->second.regions == 0) owners.erase(own);
}

Status SharedRegions::check(const wire::Request& request) const {
  if (sharing_ == Sharing::kEverybody || (sharing_ == Sharing::kLocal && is_local(request))) return {};
  return failure(Code::kUnimplemented,
                 sharing_ == Sharing::kNobody
                     ? "shared memory is off (oip.shared_memory)"
                     : "shared memory is for clients on the server's own machine, over loopback or a unix socket and "
                       "without a proxy: oip.shared_memory: true allows it to all");
}

Status SharedRegions::add(const wire::Request& request, RegionRecord record, const Map& map) {
  if (Status status = check(request); !status.ok()) return status;
  if (record.name.empty() || record.name.size() > kLongestName)
    return invalid("the name of a shared memory region has 1 to " + std::to_string(kLongestName) + " bytes");
  if (wire::has_control(record.name)) return invalid("the name of a shared memory region has no control characters");
  const Key key{owner_of(request), record.name};
  const auto exists = [&] {
    return failure(Code::kAlreadyExists, "shared memory region " + in_quotes(key.second) + " already in manager");
  };
  {
    std::lock_guard lock(mutex_);
    if (regions_.count(key)) return exists();
  }
  auto mapped = map(std::move(record));  // first: a region that its object does not have is never a want of room
  if (!mapped) return mapped.error();
  const uint64_t bytes = (*mapped)->record().bytes;
  const Status taken = usage_->take(key.first, bytes, bytes_);
  auto room = taken.ok() ? std::make_shared<Room>(usage_, key.first, bytes) : nullptr;
  std::shared_ptr<SharedRegion> region(mapped->release(), Unmap{unmapper_, std::move(room), bytes_ / 2});
  if (!taken.ok()) return taken;
  std::lock_guard lock(mutex_);
  return regions_.emplace(key, std::move(region)).second ? Status() : exists();
}

void SharedRegions::remove(const wire::Request& request, RegionKind kind, std::string_view name) {
  std::shared_ptr<SharedRegion> last;  // unmapped without the lock
  std::lock_guard lock(mutex_);
  auto found = regions_.find(Key{owner_of(request), std::string(name)});
  if (found == regions_.end() || found->second->record().kind != kind) return;
  last = std::move(found->second);
  regions_.erase(found);
}

void SharedRegions::remove_all(const wire::Request& request, RegionKind kind) {
  std::vector<std::shared_ptr<SharedRegion>> last;
  const uint64_t owner = owner_of(request);
  std::lock_guard lock(mutex_);
  for (auto at = regions_.lower_bound(Key{owner, ""}); at != regions_.end() && at->first.first == owner;) {
    const bool leaves = at->second->record().kind == kind;
    if (leaves) last.push_back(std::move(at->second));
    at = leaves ? regions_.erase(at) : std::next(at);
  }
}

base::Result<std::vector<RegionRecord>> SharedRegions::list(const wire::Request& request, RegionKind kind,
                                                            std::string_view name) const {
  std::vector<RegionRecord> out;
  const uint64_t owner = owner_of(request);
  std::lock_guard lock(mutex_);
  if (name.empty()) {
    for (auto at = regions_.lower_bound(Key{owner, ""}); at != regions_.end() && at->first.first == owner; ++at)
      if (at->second->record().kind == kind) out.push_back(at->second->record());
    return out;
  }
  auto found = regions_.find(Key{owner, std::string(name)});
  if (found == regions_.end())
    return failure(Code::kNotFound, "Unable to find " + word(kind) + " shared memory region: " + in_quotes(name));
  const RegionRecord& record = found->second->record();
  if (record.kind != kind)
    return failure(Code::kNotFound, "The region named " + in_quotes(name) + " is registered as " + word(record.kind) +
                                        " shared memory, not " + word(kind) + " shared memory");
  out.push_back(record);
  return out;
}

Status SharedRegions::find(const wire::Request& request, RegionRange& range) const {
  if (Status status = check(request); !status.ok()) return status;
  {
    std::lock_guard lock(mutex_);
    if (auto found = regions_.find(Key{owner_of(request), range.region}); found != regions_.end())
      range.memory = found->second;
  }
  const std::string name = in_quotes(range.region);
  if (!range.memory) return failure(Code::kNotFound, "Unable to find shared memory region: " + name);
  const uint64_t size = range.memory->record().bytes;
  if (range.offset >= size) return invalid("Invalid offset for shared memory region: " + name);
  if (range.bytes > size - range.offset) return invalid("Invalid offset + byte size for shared memory region: " + name);
  return {};
}

}  // namespace weir::oip
