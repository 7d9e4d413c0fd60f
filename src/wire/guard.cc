#include "wire/guard.h"

#include <algorithm>

namespace weir::wire {
namespace {

constexpr uint32_t kMaxContinuations = 8;  // of one header block, as libnghttp2 has it
constexpr uint32_t kMaxEmptyRun = 1;
constexpr uint64_t kPrematureChecked = 250;  // closed streams before the ratio of premature ones counts
constexpr uint64_t kPrioritiesPerStream = 100;
constexpr uint64_t kUpdatesPerDataFrame = 10;  // of up to kUsualFrame; a larger one counts as several
constexpr uint32_t kUsualFrame = 16 << 10;
constexpr uint64_t kOverheadAllowance = 1 << 20;
constexpr uint8_t kPingStrikes = 2;
constexpr uint32_t kLongestGoaway = 16 << 10;  // bytes
// Traffic earns a peer control frames, of which at most kMostEarned are kept. Each of our HEADERS and DATA frames earns
// a PING, because a gRPC client sends one per round trip in which something came; payload, either way, earns as below.
// grpc-go widens its window, by SETTINGS, at most once per 43 KiB.
constexpr uint32_t kMostEarned = 100;
constexpr uint64_t kBytesPerPing = 16 << 10, kBytesPerSettings = 32 << 10;
constexpr uint64_t kPingAndAck = 2 * (9 + 8);

}  // namespace

bool TokenBucket::take(base::Time now) {
  if (now > at_) {
    double seconds = std::chrono::duration<double>(now - at_).count();
    tokens_ = std::min<double>(bucket_.burst, tokens_ + seconds * bucket_.per_second);
    at_ = now;
  }
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

HeaderBudget::Fit HeaderBudget::add(const Limits& limits, size_t name, size_t value) {
  ++fields_;
  bytes_ += uint32_t(name + value + 32);
  if (fields_ > limits.header_fields_hard || bytes_ > limits.header_bytes_hard) return Fit::kHard;
  over_ = over_ || fields_ > limits.header_fields || bytes_ > limits.header_bytes;
  return over_ ? Fit::kSoft : Fit::kYes;
}

bool SkippedIds::open(int32_t id) {
  if (id > last_) {
    if (id > last_ + 2) {
      if (gaps_.size() < kMost) gaps_.emplace_back();
      gaps_[made_++ % kMost] = {last_ + 2, id - 2};
    }
    last_ = id;
    return true;
  }
  return std::none_of(gaps_.begin(), gaps_.end(), [id](const Gap& g) { return g.from <= id && id <= g.to; });
}

Limits::Bucket Guard::resets_of(const Limits& limits, Clients clients) {
  const uint32_t each = limits.resets * (clients == Clients::kMany ? Limits::kResetsOfProxy : 1);
  return {each * Limits::kResetBurst, each};
}

Guard::Guard(const Limits& limits, base::Time now, Clients clients)
    : limits_(limits),
      began_(now),
      resets_(resets_of(limits, clients), now),
      glitches_(limits.glitches, now),
      pings_(limits.pings, now),
      settings_(limits.settings, now),
      earned_pings_(kMostEarned),
      earned_settings_(kMostEarned),
      earned_resets_(kMostEarned) {}

bool Guard::fail(std::string_view reason, std::string_view text, H2Error code) {
  condemn({reason, code, text});
  return false;
}

void Guard::condemn(Verdict verdict) {
  if (!verdict_) verdict_ = verdict;
}

bool Guard::frame(const FrameHead& head, base::Time now) {
  if (verdict_) return false;
  total_ += 9 + head.length;
  switch (head.type) {
    case H2Frame::kHeaders:
      payload_ += head.length;
      continuations_ = 0;
      return headers(head) && empty(head);
    case H2Frame::kData:
      payload_ += head.length;
      if (!head.only_padding) moved(head.length);
      return empty(head);
    case H2Frame::kContinuation:
      if (++continuations_ > kMaxContinuations) return fail(reason::kH2Continuation, "too many CONTINUATION frames");
      return empty(head);
    default: return control(head, now);
  }
}

bool Guard::headers(const FrameHead& head) {
  if (head.stream % 2 == 0) return true;  // H2Heads refuses it
  if (head.stream > ids_.last()) ++streams_, ++requests_;
  if (ids_.open(head.stream)) return true;
  return fail(reason::kH2StreamId, "HEADERS on a stream id that was skipped", H2Error::kProtocol);
}

// CVE-2019-9518: frames that carry nothing and end nothing.
bool Guard::empty(const FrameHead& head) {
  bool ends = head.type != H2Frame::kContinuation && head.end_stream();
  if ((head.length != 0 && !head.only_padding) || ends) {
    empty_run_ = 0;
    return true;
  }
  if (++empty_run_ <= kMaxEmptyRun) return true;
  return fail(reason::kH2Empty, "empty frames");
}

bool Guard::control(const FrameHead& head, base::Time now) {
  if (total_ / 8 > payload_ + kOverheadAllowance) return fail(reason::kH2Ping, "mostly control frames");
  switch (head.type) {
    case H2Frame::kRstStream: return resets_.take(now) || fail(reason::kH2RstRx, "too many resets");
    case H2Frame::kSettings:
      if (head.ack()) return settings_acked_ = true;
      return settings(now);
    case H2Frame::kPing: return head.ack() || ping(now);
    case H2Frame::kWindowUpdate:
      if (++window_updates_ <= 5 + 2 * (streams_ + kUpdatesPerDataFrame * data_sent_)) return true;
      return fail(reason::kH2Window, "too many WINDOW_UPDATEs");
    case H2Frame::kGoaway: return head.length <= kLongestGoaway || fail(reason::kParse, "a GOAWAY of more than 16 KiB");
    case H2Frame::kPushPromise: return true;
    default:  // PRIORITY and what we do not know: of no use to us
      if (++priorities_ <= kPrioritiesPerStream * (1 + streams_)) return true;
      return fail(reason::kH2Prio, "too many PRIORITY or unknown frames");
  }
}

void Guard::moved(uint32_t payload) {
  uint64_t before = std::exchange(moved_, moved_ + payload);
  earned_pings_.earn(uint32_t(moved_ / kBytesPerPing - before / kBytesPerPing));
  earned_settings_.earn(uint32_t(moved_ / kBytesPerSettings - before / kBytesPerSettings));
}

bool Guard::settings(base::Time now) {
  return earned_settings_.spend() || settings_.take(now) || fail(reason::kH2Settings, "too many SETTINGS");
}

bool Guard::ping(base::Time now) {
  if (earned_pings_.spend())
    payload_ += kPingAndAck;  // no overhead
  else if (!pings_.take(now))
    return fail(reason::kH2Ping, "too_many_pings");
  if (limits_.min_ping_interval == base::Duration(0)) return true;
  bool early = last_ping_ != base::kNever && now - last_ping_ < limits_.min_ping_interval;
  last_ping_ = now;
  if (!early || ++ping_strikes_ <= kPingStrikes) return true;
  return fail(reason::kH2Ping, "too_many_pings");  // the words that gRPC clients look for
}

bool Guard::glitch(base::Time now) {
  if (verdict_) return false;
  return glitches_.take(now) || fail(reason::kH2RstTx, "too many stream errors");
}

bool Guard::stream_closed(Life life) {
  if (verdict_) return false;
  ++closed_;
  if (life == Life::kPremature) ++premature_;
  if (closed_ < kPrematureChecked || premature_ * 2 < closed_) return true;
  return fail(reason::kH2RstRx, "most streams were reset early");
}

bool Guard::sent(const FrameHead& head) {
  total_ += 9 + head.length;
  switch (head.type) {
    case H2Frame::kData:
    case H2Frame::kHeaders:
      if (head.type == H2Frame::kData) data_sent_ += 1 + head.length / kUsualFrame, moved(head.length);
      earned_pings_.earn(1);
      payload_ += head.length;
      ping_strikes_ = 0;  // gRPC: pings around data of ours are fair (a client measures the bandwidth with them)
      last_ping_ = base::kNever;
      return !verdict_;
    case H2Frame::kSettings:
    case H2Frame::kPing:
      if (!head.ack()) return !verdict_;
      [[fallthrough]];
    case H2Frame::kRstStream:
      if (++outbound_since_ + outbound_before_ <= limits_.max_outbound_control) return !verdict_;
      return fail(reason::kH2Outbound, "too many unread answers");
    default: return !verdict_;
  }
}

bool Guard::check(base::Time now) {
  if (verdict_) return false;
  if (settings_acked_ || now - began_ < limits_.settings_ack) return true;
  return fail(reason::kH2Settings, "SETTINGS not acknowledged", H2Error::kSettingsTimeout);
}

}  // namespace weir::wire
