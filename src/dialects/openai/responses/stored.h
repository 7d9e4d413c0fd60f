// StoredResponses: responses that clients may come back to for a while, and the turns of chats that lead to them;
// conversations and chat completions, too. All shards share one.
//
// Each belongs to its tenant: ids are one tenant's own, and who asks with another one's id finds nothing. What they
// hold is charged to the memory ledger. A tenant has a quarter of the memory and of the count; where that is used up,
// its own oldest go. Where all is used up, the oldest of the tenant that has the most go.
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

enum class StoredKind : uint8_t { kResponse, kConversation, kChat };

struct StoredResponse {
  std::string owner;     // as all nodes name it; empty where this one is alone
  base::Bytes turns;     // of the conversation to its end: the inside of a JSON list; items of a conversation
  base::Bytes response;  // JSON: the response, the conversation without its items, the chat completion
  StoredKind kind = StoredKind::kResponse;
  // Known without its JSON: of a chat completion what lists are asked for by, of a response that was streamed
  // how it was cut (replay.h).
  std::string about;
};

// Any thread.
class StoredResponses {
 public:
  static constexpr size_t kMostBytes = size_t(4) << 20;  // of one
  static constexpr size_t kMost = 64 << 10;              // of all; a tenant has a quarter

  // `ttl` 0: nothing is stored. A tenant has a quarter of `bytes`. The ledger is borrowed; null: nobody is charged.
  StoredResponses(base::Duration ttl, uint64_t bytes, base::MemoryLedger* ledger = nullptr)
      : ttl_(ttl), share_(bytes / 4), byte_quota_(bytes / 4, bytes, ledger) {}

  // Called with an owner and an id when what has an owner has to go for want of room. Once, before the first put().
  // From inside of it: it must not call back.
  void when_evicted(std::function<void(const std::string& owner, const std::string& id)> evicted) {
    evicted_ = std::move(evicted);
  }
  base::Duration ttl() const { return ttl_; }
  bool stores() const { return ttl_ > base::Duration(0); }
  // Whether so many bytes more could be kept in that one at all, whatever else there is.
  bool may_grow(const StoredResponse& stored, size_t more) const;
  // False: there is no room for it, or the tenant has the id already.
  bool put(uint64_t tenant, const std::string& id, StoredResponse stored, base::Time now);
  std::optional<StoredResponse> find(uint64_t tenant, const std::string& id, base::Time now,
                                     StoredKind kind = StoredKind::kResponse);
  // Calls `visit` with the tenant's chat completions behind that of the id `after`, unless it is empty, until it
  // answers false. From inside of it: it must not call back. False: `after` is none of them.
  enum class Order : uint8_t { kOldestFirst, kNewestFirst };
  using Visit = std::function<bool(const std::string& id, const StoredResponse& chat)>;
  bool each_chat(uint64_t tenant, base::Time now, const std::string& after, Order order, const Visit& visit);
  // Puts `next` in the place of what has been `seen`; a conversation's time begins anew. Turns that are those that were
  // seen stay as they are by now, and so does the response with what is known of it. kChanged: somebody else has been
  // faster with the same part.
  enum class Replaced : uint8_t { kDone, kChanged, kGone, kNoRoom };
  Replaced replace(uint64_t tenant, const std::string& id, const StoredResponse& seen, StoredResponse next,
                   base::Time now);
  bool remove(uint64_t tenant, const std::string& id, base::Time now, StoredKind kind = StoredKind::kResponse);
  // Forgets those whose time is over. Says when the next one's is; kNever: there are none.
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

  const base::Duration ttl_;
  const uint64_t share_;  // bytes of one tenant
  std::function<void(const std::string& owner, const std::string& id)> evicted_;
  mutable std::mutex mutex_;
  session::ByteQuota byte_quota_;                 // this and the rest: under mutex_
  Records records_;                               // the oldest in front
  std::unordered_map<uint64_t, Tenant> tenants_;  // only those that have some
  Ranking counts_, bytes_;
};

}  // namespace weir::openai::responses
