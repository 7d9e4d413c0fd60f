// PartedBucket: a bucket whose values may be longer than one message: what is too long lies in parts.
//
//   value = "weir-parts 1 " nonce SP count SP size LF          in the place of the value itself
//   part  = kPart bytes, the last one less, at "part." key "." nonce "." number
//
// The parts are written first, at keys that no other write uses, then the value that names them, by its revision: who
// reads finds all of one value, or the one before. The parts of the value before are erased afterwards; those of a
// writer that has died in between go when their time in the bucket is over.
//
// One thread. All that it is given outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/env.h"
#include "cluster/bucket.h"

namespace weir::cluster {

class PartedBucket final : public Bucket {
 public:
  static constexpr std::string_view kPrefix = "part.";  // of keys
  static constexpr size_t kPart = 480 << 10, kMostParts = 16;

  // `largest`: bytes of a value; what says that it is longer is not read.
  PartedBucket(base::Env& env, Bucket& bucket, size_t largest = kMostParts * kPart)
      : env_(env), bucket_(bucket), largest_(largest) {}

  // As Bucket says, and: RESOURCE_EXHAUSTED: the value has more than kMostParts.
  void write(const std::string& key, std::string value, uint64_t expected, OnWritten then) override;
  // Its parts are not read. kAny: NOT_FOUND: nothing is there; ABORTED: somebody wrote meanwhile; a mark stays as it
  // is, and where the value cannot be read, parts may stay until their time is over.
  void erase(const std::string& key, uint64_t expected, OnWritten then) override;
  // DATA_LOSS: a part is not there, or not as long as it was; it is too long.
  void read(const std::string& key, OnRead then) override;

 private:
  // The parts of one value: their keys, and their revisions as far as they are known.
  struct Parts {
    std::vector<std::string> keys;
    std::vector<uint64_t> revisions;
  };
  struct Writing;
  struct Reading;
  void write_next(const std::shared_ptr<Writing>& writing);
  void write_head(const std::shared_ptr<Writing>& writing);
  void look_for_head(const std::shared_ptr<Writing>& writing, const std::string& head, const base::Status& why);
  void erase_any(const std::string& key, OnWritten then);
  void read_next(const std::shared_ptr<Reading>& reading);
  void finish(const std::shared_ptr<Reading>& reading);
  void forget(const Parts& parts);
  void replace(const std::string& key, Parts parts);

  static constexpr size_t kMostKnown = 1 << 16;

  base::Env& env_;
  Bucket& bucket_;
  const size_t largest_;
  std::map<std::string, Parts> known_;  // of the values that this node has written or read last
};

}  // namespace weir::cluster
