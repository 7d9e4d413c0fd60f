// StoredResponses: keeps responses, with the turns of the chats that led to them, conversations and chat completions,
// for a limited time. All shards share one.
//
// Each object belongs to its tenant: another tenant does not find it by its id. Objects are charged to the memory
// ledger. A tenant may use a quarter of the memory and of the count; beyond that its own oldest objects are deleted.
// When all is used up, the oldest objects of the tenant that has the most are deleted.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/bytes.h"
#include "base/env.h"
#include "session/byte_quota.h"

namespace weir::openai::responses {

// kConnection: a response that is not stored, and that its WebSocket alone finds (continuations.h).
enum class StoredKind : uint8_t { kResponse, kConversation, kChat, kConnection };

struct StoredResponse {
  std::string owner;     // as all nodes name it; empty where this one is alone
  base::Bytes turns;     // of the conversation to its end: the inside of a JSON list; items of a conversation
  base::Bytes response;  // JSON: the response, the conversation without its items, the chat completion
  StoredKind kind = StoredKind::kResponse;
  // Facts that are needed without parsing the JSON: for a chat completion those by which lists are filtered, for a
  // response that was streamed how it was cut into events (replay.h).
  std::string about;
};

// Any thread.
class StoredResponses {
 public:
  static constexpr size_t kMostBytes = size_t(4) << 20;  // of one
  static constexpr size_t kMost = 64 << 10;              // of all; a tenant has a quarter

  // `ttl` 0: nothing is stored, but what connections keep, for an hour. A tenant has a quarter of `bytes`. The ledger
  // is borrowed; null: nobody is charged.
  StoredResponses(base::Duration ttl, uint64_t bytes, base::MemoryLedger* ledger = nullptr)
      : ttl_(ttl),
        kept_for_(ttl > base::Duration(0) ? ttl : std::chrono::hours(1)),
        share_(bytes / 4),
        byte_quota_(bytes / 4, bytes, ledger) {}

  // Sets the function that is called with owner and id when an object that has an owner is deleted for want of room.
  // Call this once, before the first put(). `evicted` must not call this object.
  void when_evicted(std::function<void(const std::string& owner, const std::string& id)> evicted) {
    evicted_ = std::move(evicted);
  }
  base::Duration ttl() const { return ttl_; }
  bool stores() const { return ttl_ > base::Duration(0); }
  // Whether the object could grow by `more` bytes at all, however little else is stored.
  bool may_grow(const StoredResponse& stored, size_t more) const;
  // False: there is no room for it, or the tenant has the id already.
  bool put(uint64_t tenant, const std::string& id, StoredResponse stored, base::Time now);
  std::optional<StoredResponse> find(uint64_t tenant, const std::string& id, base::Time now,
                                     StoredKind kind = StoredKind::kResponse);
  // Calls `visit` with each of the tenant's chat completions, from behind the one with the id `after` if that is not
  // empty, until `visit` returns false. `visit` must not call this object. False: there is none with the id `after`.
  enum class Order : uint8_t { kOldestFirst, kNewestFirst };
  using Visit = std::function<bool(const std::string& id, const StoredResponse& chat)>;
  bool each_chat(uint64_t tenant, base::Time now, const std::string& after, Order order, const Visit& visit);
  // Replaces the object, if it is still as it was `seen`, by `next`; the time of a conversation begins anew. `turns`
  // and `response` (with `about`) are compared separately: a part that is the same in `seen` and `next` keeps its
  // stored value. kChanged: another request has changed the same part.
  enum class Replaced : uint8_t { kDone, kChanged, kGone, kNoRoom };
  Replaced replace(uint64_t tenant, const std::string& id, const StoredResponse& seen, StoredResponse next,
                   base::Time now);
  bool remove(uint64_t tenant, const std::string& id, base::Time now, StoredKind kind = StoredKind::kResponse);
  // Deletes the objects whose time is over. Returns when the next one expires; kNever: there is none.
  base::Time expire(base::Time now);
  size_t size() const;

 private:
  struct Record;
  using Records = std::list<Record>;
  using Own = std::list<Records::iterator>;  // a tenant's, the oldest in front
  struct Record {
    std::string id;
    uint64_t tenant = 0, bytes = 0;
    base::Time until;
    StoredResponse stored;
    Own::iterator own;  // in its tenant's list
  };
  struct Tenant {
    Own own;
    std::unordered_map<std::string_view, Records::iterator> at;  // by the ids of the records
    uint64_t bytes = 0;
  };
  // How much of something each tenant has.
  class Ranking {
   public:
    void change(uint64_t tenant, uint64_t before, uint64_t now);
    // The tenant that has the most; the given one where it has as much.
    uint64_t most(uint64_t tenant, uint64_t has) const;

   private:
    std::set<std::pair<uint64_t, uint64_t>> ranks_;  // how much, whose
  };

  void expire_locked(base::Time now);
  std::optional<Records::iterator> find_locked(uint64_t tenant, const std::string& id);
  void erase(Records::iterator record);
  bool evict(uint64_t tenant, const Record* kept);
  bool make_room(uint64_t tenant, uint64_t before, uint64_t bytes, const Record* kept);

  const base::Duration ttl_, kept_for_;
  const uint64_t share_;  // bytes of one tenant
  std::function<void(const std::string& owner, const std::string& id)> evicted_;
  mutable std::mutex mutex_;
  session::ByteQuota byte_quota_;                 // this and the rest: under mutex_
  Records records_;                               // the oldest in front
  std::unordered_map<uint64_t, Tenant> tenants_;  // only those that have some
  Ranking counts_, bytes_;
};

}  // namespace weir::openai::responses
