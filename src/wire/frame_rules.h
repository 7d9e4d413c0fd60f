// FrameRules: what RFC 9113 says of frames on streams that are closed, of which nothing else is kept, and of PRIORITY,
// which is otherwise passed over. Pure; no memory grows.
#pragma once

#include <bitset>
#include <cstdint>

#include "wire/guard.h"

namespace weir::wire {

// Which of the youngest streams their client has ended, by END_STREAM or RST_STREAM: it may send neither fields nor
// data there any more (§5.1). On older streams such frames are dropped (h2_heads.h, h2_bodies.h).
class EndedStreams {
 public:
  void open(int32_t id);  // client's ids: odd
  void end(int32_t id);
  bool ended(int32_t id) const;

 private:
  static constexpr int32_t kKept = 128;
  size_t place(int32_t id) const { return size_t(last_ - id) / 2; }
  bool kept(int32_t id) const { return id > 0 && id <= last_ && id % 2 == 1 && place(id) < size_t(kKept); }

  int32_t last_ = -1;
  std::bitset<kKept> ended_;  // by distance from the youngest
};

class FrameRules {
 public:
  // A frame has begun to arrive. A verdict where it breaks a rule.
  Verdict check(const FrameHead& head);

 private:
  Verdict check_priority(const FrameHead& head) const;

  EndedStreams streams_;
};

}  // namespace weir::wire
