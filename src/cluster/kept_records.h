// KeptRecords: what any node may read in the bucket, and what never changes: a record is written once, and erased. No
// node owns one, so that nobody needs a lease, and it outlives its writer. Pure.
//
// The key is an HMAC of the record's owner and its id: who asks for another owner's record asks for a key that is not
// there. With cluster.secret the record has a MAC that binds it to its key (ownership.h has its form).
//
// What could not be written because the bucket is away is unkept: it is written once that is back. Bounds: Limits; a
// record has at most Ownership::kLargestState bytes. Of reads, a few hold memory at once, which is charged to the
// ledger from before the first byte until the record's last use; the others wait for their turn.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/bytes.h"
#include "base/env.h"
#include "base/memory_ledger.h"
#include "cluster/bucket.h"
#include "cluster/ownership.h"

namespace weir::cluster {

class KeptRecords {
 public:
  struct Limits {
    size_t at_once = 1024;                        // keep()s, read()s and erase()s
    size_t of_one_owner = 128;                    // of these
    uint64_t bytes_at_once = uint64_t(64) << 20;  // of records that are being written
    uint64_t unkept_bytes = uint64_t(64) << 20;   // of records that wait for the bucket
    uint64_t read_bytes = uint64_t(64) << 20;     // of records that are being read, each kOfRead
    uint64_t read_bytes_of_one_owner = uint64_t(20) << 20;
    size_t to_forget = 1 << 16;
    base::Duration patience = std::chrono::seconds(3);  // of each; nobody waits longer, whatever the bucket does
    base::Duration retry = std::chrono::milliseconds(200);
  };
  struct Found {
    enum class State : uint8_t { kUnknown, kErased, kThere } state = State::kUnknown;
    base::Bytes record;
  };
  using Done = std::function<void(base::Status)>;
  using Read = std::function<void(base::Result<Found>)>;
  static constexpr std::string_view kPrefix = "response.";  // of keys
  static constexpr size_t kLargestValue = Ownership::kLargestState + 512;
  static constexpr uint64_t kOfRead = kLargestValue + (1 << 20);  // with what may be in one message too much

  // `name`: this node's; `key`: Secrets::entry_key; `reaches`: whether it is worth waiting for the bucket; `memory`:
  // null: nobody is charged. The bucket gives no value that is longer than kLargestValue.
  KeptRecords(base::Env& env, Bucket& bucket, std::string name, std::string key, std::function<bool()> reaches,
              Limits limits, base::MemoryLedger* memory = nullptr)
      : env_(env),
        bucket_(bucket),
        name_(std::move(name)),
        key_(std::move(key)),
        reaches_(std::move(reaches)),
        limits_(limits),
        memory_(memory) {}
  ~KeptRecords();
  KeptRecords(const KeptRecords&) = delete;

  std::string key_of(const std::string& owner, const std::string& id) const;
  // All four as session::SharedRecords says. They answer once, later or at once.
  void keep(const std::string& owner, const std::string& id, std::string record, Done then);
  void read(const std::string& owner, const std::string& id, Read then);
  void erase(const std::string& owner, const std::string& id, Done then);
  void forget(const std::string& owner, const std::string& id);

  size_t unkept() const { return unkept_.size(); }
  uint64_t lost() const { return lost_; }        // records that are not kept: there was no room for them
  uint64_t refused() const { return refused_; }  // that cannot be read
  // Records that stay until their time is over: too many were to be forgotten, or the bucket does not erase them.
  uint64_t left() const { return left_; }

 private:
  struct Reading;
  template <class T>
  std::function<void(T)> counted(const std::string& owner, std::function<void(T)> then);
  bool busy(const std::string& owner) const;
  void write(const std::string& key, std::string value, base::Time until, Done then);
  Done in_time(Done then);
  void begin_reads();
  std::shared_ptr<Reading> next_read();
  void look(const std::shared_ptr<Reading>& reading);
  void found(const std::shared_ptr<Reading>& reading, base::Result<Bucket::KeyValue> entry);
  base::Result<Found> found_there(Reading& reading, const Bucket::KeyValue& entry);
  void end_read(const std::shared_ptr<Reading>& reading, base::Result<Found> found);
  void answer(Reading& reading, base::Result<Found> found);
  void erase_key(const std::string& key, Done then);
  void forget_next();
  void set_unkept(const std::string& key, std::string value);
  void clear_unkept(const std::string& key);
  uint64_t later(base::Duration after, std::function<void()> work);  // number of the timer
  void drop_timer(uint64_t number);
  void arm();
  void retry_unkept();

  base::Env& env_;
  Bucket& bucket_;
  const std::string name_, key_;
  const std::function<bool()> reaches_;
  const Limits limits_;
  base::MemoryLedger* const memory_;
  std::map<std::string, std::string> unkept_;  // values that are to be written
  std::map<std::string, bool> writing_;        // keys of writes under way; true: erased meanwhile, for good
  size_t under_way_ = 0;
  std::map<std::string, size_t> of_owner_;  // of these, by owner
  uint64_t bytes_ = 0, unkept_bytes_ = 0, lost_ = 0, refused_ = 0, left_ = 0;
  bool stalled_ = false;  // nobody waits for a write: one was not answered in time, and none was since
  std::deque<std::shared_ptr<Reading>> waiting_;  // reads that have not begun
  std::map<std::string, uint64_t> reading_of_;    // bytes of those that have, by owner
  uint64_t reading_bytes_ = 0;
  bool beginning_ = false;
  std::deque<std::string> to_forget_;  // keys
  size_t forgetting_ = 0;
  bool forgets_later_ = false;
  base::TimerId timer_ = base::TimerId::kNone;
  std::map<uint64_t, base::TimerId> timers_;
  uint64_t last_timer_ = 0;
};

}  // namespace weir::cluster
