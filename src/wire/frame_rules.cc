#include "wire/frame_rules.h"

namespace weir::wire {

void EndedStreams::open(int32_t id) {
  if (id <= last_ || id % 2 == 0) return;
  ended_ <<= size_t(int64_t(id) - last_) / 2;  // all the way out, if that is far
  last_ = id;
}

void EndedStreams::end(int32_t id) {
  if (kept(id)) ended_.set(place(id));
}

bool EndedStreams::ended(int32_t id) const { return kept(id) && ended_.test(place(id)); }

Verdict FrameRules::check(const FrameHead& head) {
  switch (head.type) {
    case H2Frame::kHeaders:
    case H2Frame::kData:
      if (streams_.ended(head.stream))
        return {reason::kH2StreamId, H2Error::kStreamClosed, "a frame on a stream that its client has ended"};
      if (head.type == H2Frame::kHeaders) streams_.open(head.stream);
      if (head.end_stream()) streams_.end(head.stream);
      return {};
    case H2Frame::kRstStream: streams_.end(head.stream); return {};
    case H2Frame::kPriority: return check_priority(head);
    default: return {};
  }
}

// §6.3, and RFC 7540 §5.3.1 for whoever still sends them.
Verdict FrameRules::check_priority(const FrameHead& head) const {
  if (head.stream == 0) return {reason::kParse, H2Error::kProtocol, "PRIORITY on stream 0"};
  if (head.depends_on == head.stream) return {reason::kParse, H2Error::kProtocol, "a stream that depends on itself"};
  return {};
}

}  // namespace weir::wire
