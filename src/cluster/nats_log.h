// NatsLog: a log that all nodes append to and read in one order: a stream (nats_stream.h) and what its messages are.
// Calls block for as long as a request may take, and fail at once while there is no connection.
//
//   stream   <name>, of the subjects <name>.entry, <name>.part, <name>.snapshot and <name>.copy
//   message  = mac kind body           mac: 64HEXDIG of the stream's identity, kind and body, by the key, or zeros
//   kind     = "E": body is the entry / "P": body is list / "S": of <name>.snapshot, body is u64(sequence) list, where
//              list is of the parts that a list of the snapshot's parts lies in / "C": of <name>.copy, body is
//              u64(sequence) and the identity of another stream
//   list     = u64(bytes) 1*( u64(sequence of a part) SHA-256 of it, 32 bytes ), little-endian
//
// An entry that is longer than a message is in parts, which go into the stream before it; one whose parts are more than
// kMostPartsBack behind is none. What others write without the key is read as an empty entry, or is no part; so is what
// was sealed for a stream of that name that was deleted since.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace weir::cluster {

class NatsLog {
 public:
  struct Options {
    std::string url;   // as NatsBucket::Options has it
    std::string name;  // [A-Za-z0-9_-]
    std::string node;
    std::string key;  // Secrets::entry_key; empty: anybody may write
    uint64_t most_bytes = uint64_t(1) << 30;
  };
  static constexpr size_t kPart = 512 << 10, kMostParts = 128, kLargest = kPart * kMostParts;
  static constexpr uint64_t kMostPartsBack = 192;  // messages; so many stay behind a snapshot, too

  struct LogEntry {
    uint64_t sequence = 0;
    std::string bytes;  // empty: it cannot be read, and never will
    bool gap = false;   // what was behind `after` is gone, or parts of the entry are
  };
  struct Part {
    uint64_t sequence = 0;
    std::string digest;  // its SHA-256, 32 bytes
  };
  struct Snapshot {
    uint64_t sequence = 0, bytes = 0;
    std::vector<Part> parts;
  };
  struct Sizes {
    size_t part = kPart, entry = kLargest;
  };
  struct Room {
    uint64_t used = 0, most = 0;  // bytes
  };
  struct Place {
    bool entry = false;    // one is there, of these bytes, which are empty where it cannot be read
    bool dropped = false;  // what was there is gone with all before it, or parts of it are
    std::string bytes;
  };
  struct Extent {
    std::string identity;     // when the stream was made
    uint64_t connection = 0;  // which one
  };

  // `news`: something may have changed, the connection, too. Any thread; not once stop() has returned.
  NatsLog(Options options, std::function<void()> news);
  ~NatsLog();

  // Connects, without waiting for it, and again and again.
  base::Status start();
  void stop();

  // The rest on one thread. UNAVAILABLE: nobody knows whether it was written. RESOURCE_EXHAUSTED: it was not. ABORTED:
  // nobody can read it, for its parts are too far back.
  base::Result<uint64_t> append(std::string_view id, std::string_view bytes);
  base::Result<std::optional<LogEntry>> next(uint64_t after);
  base::Result<Place> at(uint64_t sequence);
  base::Result<Extent> extent();
  // The newest of those that were sealed by the key, whatever else is there.
  base::Result<std::optional<Snapshot>> snapshot();
  base::Result<Part> append_part(std::string_view bytes);
  base::Result<std::string> read_part(const Part& part);  // empty: it is gone; DATA_LOSS: another one is there
  // Entries of before are dropped. ABORTED: a newer one is there. RESOURCE_EXHAUSTED: its list of parts is too long.
  // Errors leave the entries where they are.
  base::Status set_snapshot(const Snapshot& snapshot);
  struct Copy {
    std::string identity;   // of a stream that is gone
    uint64_t sequence = 0;  // how far a node's copy of it is
  };
  base::Status tell_copy(const Copy& copy);
  // Another one was told that is further: of the same stream, or of one that was made later; no identity: of none yet.
  base::Result<bool> is_behind(const Copy& copy);
  // In a stream without entries. ABORTED: one is there, or another snapshot.
  base::Status begin_with(const Snapshot& snapshot);
  base::Result<Room> room();
  // Bytes that a part and an entry may have: less where the server takes short messages only (max_payload).
  Sizes sizes() const;

  // Any thread.
  bool connected() const;
  void abandon();  // as NatsStream has it

 private:
  struct Parts;
  const std::unique_ptr<Parts> parts_;
};

}  // namespace weir::cluster
