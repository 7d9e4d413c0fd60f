// Log: what all nodes of a cluster append to, and read in one order: the one thing that this room asks of a broker.
// src/cluster/nats_log.h has a JetStream stream behind it, tests have memory.
//
// On the Store's thread, which every call may block for a few seconds; none does while the broker is known to be away.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::jobs {

class Log {
 public:
  static constexpr size_t kLargest = size_t(64) << 20;  // bytes of an entry
  static constexpr size_t kPart = size_t(512) << 10;    // of a snapshot's part
  // Bytes that the broker takes, as it is set up now.
  struct Sizes {
    size_t part = kPart, entry = kLargest;
  };
  virtual Sizes sizes() const { return {}; }

  struct LogEntry {
    uint64_t sequence = 0;  // greater than that of every entry before
    std::string bytes;      // empty: it cannot be read, and never will
    bool gap = false;       // entries between the one that was asked for and this are gone, or a part of it: a snapshot
                            // has them
  };
  struct Part {
    uint64_t sequence = 0;
    std::string digest;  // by which the log knows that what is there is what was appended
  };
  // The copy that all entries up to one have made: a file, in parts.
  struct Snapshot {
    static constexpr uint64_t kBeginning = 1;  // of a part; no entry is there
    uint64_t sequence = 0;                     // the last one in it
    uint64_t bytes = 0;
    std::vector<Part> parts;  // in order
  };
  struct Extent {
    std::string identity;     // of this log; one that was made after it was lost has another, which is a greater number
    uint64_t connection = 0;  // which one: with the next, the log may have lost its end
  };

  // The entry's sequence; an `id` that came lately is not appended again, and has the sequence of then. Errors:
  // UNAVAILABLE: nobody knows whether it is there, now or later; RESOURCE_EXHAUSTED: the log is full, or the entry is
  // too long: it is not there; ABORTED: nor is it, others have written too much meanwhile.
  virtual base::Result<uint64_t> append(std::string_view id, std::string_view bytes) = 0;
  // The first entry behind that sequence; nothing: there is none yet. UNAVAILABLE.
  virtual base::Result<std::optional<LogEntry>> next(uint64_t after) = 0;
  struct Place {
    // kOther: no entry, or nothing, though what was there before is not dropped. kDropped: what was there is gone in
    // order, or a part of it is.
    enum class Has : uint8_t { kEntry, kOther, kDropped } has = Has::kOther;
    std::string bytes;  // of the entry
  };
  // Returns the message of that very sequence. UNAVAILABLE.
  virtual base::Result<Place> at(uint64_t sequence) = 0;
  // UNAVAILABLE.
  virtual base::Result<Extent> extent() = 0;

  // The newest one. Nothing: there is none.
  virtual base::Result<std::optional<Snapshot>> snapshot() = 0;
  virtual base::Result<Part> append_part(std::string_view bytes) = 0;
  // Empty: it is gone. DATA_LOSS: something else is in its place.
  virtual base::Result<std::string> read_part(const Part& part) = 0;
  // Entries that are in it, and far enough back, go. ABORTED: a newer one is there. RESOURCE_EXHAUSTED: it has too many
  // parts. After an error nothing has gone.
  virtual base::Status set_snapshot(const Snapshot& snapshot) = 0;
  // How far a copy is, of a log that is gone: told to the others in this one.
  struct Copy {
    std::string identity;   // of the log that is gone
    uint64_t sequence = 0;  // of the last entry that it has
  };
  virtual base::Status tell_copy(const Copy& copy) = 0;
  // Whether another copy was told that is further: of the same log, or of a later one. One without an identity is of
  // none, and behind all. UNAVAILABLE.
  virtual base::Result<bool> is_behind(const Copy& copy) = 0;
  // As the log's beginning, at Snapshot::kBeginning. ABORTED: an entry or another snapshot is there.
  virtual base::Status begin_with(const Snapshot& snapshot) = 0;
  struct Room {
    uint64_t used = 0, most = 0;  // bytes
  };
  virtual base::Result<Room> room() = 0;

  // Any thread. For good: calls that block end soon, and those to come fail at once.
  virtual void abandon() {}

  // False: which nodes are there (Store::set_nodes) is not known now, and no node is taken for one that is gone.
  virtual bool knows_nodes() const { return true; }

 protected:
  ~Log() = default;
};

}  // namespace weir::jobs
