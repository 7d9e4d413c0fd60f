// KeptRecords: what any node may read in the bucket, and what never changes: a record is written once, and erased. No
// node owns one, so that nobody needs a lease, and it outlives its writer. Pure.
//
// The key is an HMAC of the record's owner and its id: who asks for another owner's record asks for a key that is not
// there. With cluster.secret the record has a MAC that binds it to its key (ownership.h has its form).
//
// What could not be written because the bucket is away is unkept: it is written once that is back. Bounds: Limits; a
// record has at most Ownership::kLargestState bytes.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>

#include "base/env.h"
#include "cluster/bucket.h"

namespace weir::cluster {

class KeptRecords {
 public:
  struct Limits {
    size_t at_once = 1024;                              // keep()s, read()s and erase()s
    size_t of_one_owner = 128;                          // of these
    uint64_t bytes_at_once = uint64_t(64) << 20;        // of records that are being written
    uint64_t unkept_bytes = uint64_t(64) << 20;         // of records that wait for the bucket
    base::Duration patience = std::chrono::seconds(3);  // of each, while the bucket may be reached
    base::Duration retry = std::chrono::milliseconds(200);
  };
  struct Found {
    enum class State : uint8_t { kUnknown, kErased, kThere } state = State::kUnknown;
    std::string record;
  };
  using Done = std::function<void(base::Status)>;
  using Read = std::function<void(base::Result<Found>)>;
  static constexpr std::string_view kPrefix = "response.";  // of keys

  // `name`: this node's; `key`: Secrets::entry_key; `reaches`: whether it is worth waiting for the bucket.
  KeptRecords(base::Env& env, Bucket& bucket, std::string name, std::string key, std::function<bool()> reaches,
              Limits limits)
      : env_(env),
        bucket_(bucket),
        name_(std::move(name)),
        key_(std::move(key)),
        reaches_(std::move(reaches)),
        limits_(limits) {}
  ~KeptRecords();
  KeptRecords(const KeptRecords&) = delete;

  std::string key_of(const std::string& owner, const std::string& id) const;
  // All three as session::SharedRecords says. They answer once, later or at once.
  void keep(const std::string& owner, const std::string& id, std::string record, Done then);
  void read(const std::string& owner, const std::string& id, Read then);
  void erase(const std::string& owner, const std::string& id, Done then);

  size_t unkept() const { return unkept_.size(); }
  uint64_t lost() const { return lost_; }        // records that are not kept: there was no room for them
  uint64_t refused() const { return refused_; }  // that cannot be read

 private:
  template <class T>
  std::function<void(T)> counted(const std::string& owner, std::function<void(T)> then);
  bool busy(const std::string& owner) const;
  void write(const std::string& key, std::string value, base::Time until, Done then);
  void found(const std::string& key, base::Result<Bucket::KeyValue> entry, base::Time until, const Read& then);
  void look(const std::string& key, base::Time until, Read then);
  void set_unkept(const std::string& key, std::string value);
  void clear_unkept(const std::string& key);
  void later(base::Duration after, std::function<void()> work);
  void arm();
  void retry_unkept();

  base::Env& env_;
  Bucket& bucket_;
  const std::string name_, key_;
  const std::function<bool()> reaches_;
  const Limits limits_;
  std::map<std::string, std::string> unkept_;  // values that are to be written
  size_t under_way_ = 0;
  std::map<std::string, size_t> of_owner_;  // of these, by owner
  uint64_t bytes_ = 0, unkept_bytes_ = 0, lost_ = 0, refused_ = 0;
  base::TimerId timer_ = base::TimerId::kNone;
  std::map<uint64_t, base::TimerId> timers_;
  uint64_t last_timer_ = 0;
};

}  // namespace weir::cluster
