// The HTTP/2 client: many requests at once over one connection (RFC 9113). See client_codec.h. Header blocks are
// libnghttp2's work; frames, streams and windows are not, for its session is made for all that HTTP/2 may be: half of
// what a small request costs here would be spent in it. What it refuses of a server is refused here (a test compares
// them).
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include <nghttp2/nghttp2.h>

#include "wire/client_codec.h"
#include "wire/h2_client_answers.h"
#include "wire/h2_client_decoder.h"
#include "wire/h2_client_output.h"
#include "wire/h2_client_streams.h"
#include "wire/h2_frame_cutter.h"

namespace weir::wire {
namespace {

constexpr uint32_t kLargestPiece = 256 << 10;  // the largest frame that we take
// The connection's window is for what has not been looked at: it opens with every byte that comes, so that no stream
// holds up another one.
constexpr int64_t kConnectionWindow = 64 << 20;
constexpr int64_t kWindowBefore = 65'535;  // of streams, until the server has our SETTINGS
constexpr uint32_t kStreamsAtFirst = 100;  // until the server has said how many
constexpr uint32_t kMostStreams = 1 << 16;
constexpr uint32_t kMostContinuations = 8;  // as libnghttp2 has it
constexpr uint32_t kMostSettings = 32;      // of one frame, as libnghttp2 has it
constexpr uint32_t kMostGoaways = 16;       // each is a look at all streams; two are usual
// Bytes of fields that are decoded for nobody, beyond what others get: those of streams that are gone, and of heads
// that are too large. An octet can stand for 4 KiB of the table, and the shortest block costs as much as kLeastWasted.
constexpr size_t kMostWasted = 16 << 20, kLeastWasted = 256;
constexpr size_t kLarge = 64 << 10;  // a piece that is worth a read of its own: FrameWalker::large_payload()
constexpr int64_t kLastId = 0x7fffffff;
constexpr uint32_t kUnset = UINT32_MAX;

uint32_t u32_of(std::string_view from) {
  auto at = [&](size_t i) { return uint32_t(uint8_t(from[i])); };
  return at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
}

// RFC 7540 §5.3.1.
bool depends_on_itself(const FrameHead& head, std::string_view priority) {
  return (u32_of(priority) & uint32_t(kLastId)) == uint32_t(head.stream);
}

class H2Client final : public ClientCodec {
 public:
  H2Client();
  H2Client(const H2Client&) = delete;

  bool has_room() const override {
    return !finished() && !output_.full() && streams_.size() < std::min(allowed_, kMostStreams);
  }
  void send(const ClientRequest& request, ClientAnswer& answer) override;
  void cancel(ClientAnswer& answer) override { answers_.cancel(answer); }
  void consume(ClientAnswer& answer, size_t n) override { answers_.consume(answer, n); }
  void feed(std::span<const std::byte> bytes) override;
  std::span<std::byte> receive_buffer() override;
  bool wants_read() const override { return true; }  // windows hold the server back
  void closed(const base::Status& why) override { fail_all(why); }
  size_t pending(std::span<iovec> out) override;
  void consumed(size_t n) override { output_.consumed(n); }
  // Also where nothing runs, and the server has still not read what it has been sent.
  bool finished() const override { return finished_ || (streams_.empty() && output_.full()); }
  bool idle() const override { return streams_.empty(); }

 private:
  using Step = H2FrameCutter::Step;
  using Fault = nghttp2_error_code;  // an error of the connection; NGHTTP2_NO_ERROR: there is none

  Fault act(Step step);
  Fault on_frame(const FrameHead& head, std::string_view payload);
  Fault on_ping(const FrameHead& head, std::string_view payload);
  Fault on_headers(const FrameHead& head, std::string_view payload);
  Fault on_continuation(const FrameHead& head, std::string_view payload);
  Fault on_part(const H2ClientDecoder::Head* head);
  Fault on_block(const H2ClientDecoder::Head* head);
  bool wastes(const ClientStream* stream, size_t bytes);
  Fault on_settings(const FrameHead& head, std::string_view payload);
  Fault on_setting(uint32_t id, uint32_t value);
  Fault on_window_update(const FrameHead& head, std::string_view payload);
  Fault on_reset(const FrameHead& head, std::string_view payload);
  Fault on_goaway(const FrameHead& head, std::string_view payload);
  Fault on_data_head(const FrameHead& head);
  Fault on_data(Step kind);
  bool was_opened(int32_t id) const { return id % 2 == 1 && id < next_id_; }  // the server opens none
  void fail_all(const base::Status& why);

  H2ClientStreams streams_;
  H2ClientOutput output_{streams_};
  H2ClientAnswers answers_{streams_, output_};
  H2FrameCutter cutter_;  // of what the server sends
  H2ClientDecoder decoder_{kMostFields};
  int64_t next_id_ = 1;
  uint32_t last_id_ = kLastId;  // that the server takes
  uint32_t allowed_ = kStreamsAtFirst;
  int64_t received_ = 0;        // bytes that the connection's window is less by
  FrameHead block_;             // of the header block that is coming
  uint32_t continuations_ = 0;  // of it
  size_t wasted_ = 0;           // bytes of fields
  std::vector<int32_t> over_;   // streams that end as their request has gone
  uint32_t no_priorities_ = kUnset;
  uint32_t first_window_ = kUnset;  // that a SETTINGS frame has said last
  uint32_t goaways_ = 0;
  bool in_block_ = false;                                // it is not complete
  bool connects_ = false;                                // SETTINGS_ENABLE_CONNECT_PROTOCOL has come
  bool settings_came_ = false, settings_taken_ = false;  // the server's, and ours by it
  bool finished_ = false;
  bool dead_ = false;  // nothing is read or sent any more
};

// --- requests --------------------------------------------------------------------------------------------------------

H2Client::H2Client() {
  const std::array<H2FrameWriter::Setting, 4> settings{
      {{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
       {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, uint32_t(H2ClientAnswers::kFirstWindow)},
       {NGHTTP2_SETTINGS_MAX_FRAME_SIZE, kLargestPiece},
       {NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, uint32_t(kMostFields)}}};
  output_.open(settings);
  output_.window_update(0, kConnectionWindow - kWindowBefore);
}

void H2Client::send(const ClientRequest& request, ClientAnswer& answer) {
  ClientStream& stream = streams_.open(int32_t(next_id_), answer);
  next_id_ += 2;
  finished_ = finished_ || next_id_ > kLastId;
  stream.bodiless = request.method == "HEAD";
  stream.local_window = settings_taken_ ? H2ClientAnswers::kFirstWindow : kWindowBefore;
  if (output_.send(stream, request)) return;
  finished_ = true;
  streams_.close(stream);
  answer.on_failed(
      base::failure(base::Code::kUnavailable, "the request cannot be sent: there is no memory for its head"));
}

size_t H2Client::pending(std::span<iovec> out) {
  if (!dead_) output_.fill(over_);
  for (int32_t id : std::exchange(over_, {})) answers_.finish_late(id);
  return output_.gather(out);
}

// --- frames ----------------------------------------------------------------------------------------------------------

std::span<std::byte> H2Client::receive_buffer() {
  const size_t here = dead_ ? 0 : cutter_.content_left();
  if (here < kLarge || cutter_.head().padded()) return {};
  ClientStream* stream = streams_.find(cutter_.head().stream);
  if (!stream || stream->status == 0) return {};
  const auto to = stream->answer->receive_buffer();
  return to.first(std::min(to.size(), here));
}

void H2Client::feed(std::span<const std::byte> bytes) {
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  while (!dead_) {
    const Step step = cutter_.next(text);
    if (step == Step::kMore) return;
    const Fault fault = act(step);
    if (fault == NGHTTP2_NO_ERROR || dead_) continue;
    output_.goaway(fault);
    fail_all(base::failure(base::Code::kUnavailable, "the server breaks the rules of HTTP/2, or does not speak it"));
  }
}

H2Client::Fault H2Client::act(Step step) {
  switch (step) {
    case Step::kMore: return NGHTTP2_NO_ERROR;
    case Step::kFrame: return on_frame(cutter_.head(), cutter_.payload());
    case Step::kDataHead: return on_data_head(cutter_.head());
    case Step::kContent:
    case Step::kPadding: return on_data(step);
    case Step::kTooLarge: return NGHTTP2_FRAME_SIZE_ERROR;
    case Step::kBroken: return NGHTTP2_PROTOCOL_ERROR;
  }
  return NGHTTP2_INTERNAL_ERROR;
}

H2Client::Fault H2Client::on_frame(const FrameHead& head, std::string_view payload) {
  if (!settings_came_ && (head.type != H2Frame::kSettings || head.ack())) return NGHTTP2_PROTOCOL_ERROR;
  if (in_block_ != (head.type == H2Frame::kContinuation)) return NGHTTP2_PROTOCOL_ERROR;
  switch (head.type) {
    case H2Frame::kHeaders: return on_headers(head, payload);
    case H2Frame::kContinuation: return on_continuation(head, payload);
    case H2Frame::kSettings: return on_settings(head, payload);
    case H2Frame::kWindowUpdate: return on_window_update(head, payload);
    case H2Frame::kRstStream: return on_reset(head, payload);
    case H2Frame::kGoaway: return on_goaway(head, payload);
    case H2Frame::kPing: return on_ping(head, payload);
    case H2Frame::kPushPromise: return NGHTTP2_PROTOCOL_ERROR;  // it was forbidden
    case H2Frame::kPriority:
      if (payload.size() != 5) return NGHTTP2_FRAME_SIZE_ERROR;
      return head.stream == 0 || depends_on_itself(head, payload) ? NGHTTP2_PROTOCOL_ERROR : NGHTTP2_NO_ERROR;
    default: return NGHTTP2_NO_ERROR;  // RFC 9113 §5.5
  }
}

H2Client::Fault H2Client::on_ping(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 8) return NGHTTP2_FRAME_SIZE_ERROR;
  if (head.stream != 0) return NGHTTP2_PROTOCOL_ERROR;
  return head.ack() || output_.acknowledge(H2Frame::kPing, payload) ? NGHTTP2_NO_ERROR : NGHTTP2_ENHANCE_YOUR_CALM;
}

// A block is decoded also where its stream is gone: the table changes.
H2Client::Fault H2Client::on_headers(const FrameHead& head, std::string_view payload) {
  const ClientStream* stream = streams_.find(head.stream);
  size_t padding = 0;
  if (head.padded()) {
    if (payload.empty()) return NGHTTP2_FRAME_SIZE_ERROR;
    padding = uint8_t(payload[0]);
    payload.remove_prefix(1);
  }
  if (head.flags & NGHTTP2_FLAG_PRIORITY) {
    if (payload.size() < 5) return NGHTTP2_FRAME_SIZE_ERROR;
    payload.remove_prefix(5);
  }
  if (padding > payload.size() || !was_opened(head.stream)) return NGHTTP2_PROTOCOL_ERROR;
  payload.remove_suffix(padding);
  if (stream && stream->whole) return NGHTTP2_STREAM_CLOSED;
  block_ = head;
  const auto kind = stream && stream->status != 0 ? H2ClientDecoder::Block::kTrailers : H2ClientDecoder::Block::kHead;
  if (head.flags & NGHTTP2_FLAG_END_HEADERS) return on_block(decoder_.read(payload, kind));
  in_block_ = true;
  continuations_ = 0;
  decoder_.begin(kind);
  return on_part(decoder_.add(payload, BlockRest::kFollows));
}

H2Client::Fault H2Client::on_continuation(const FrameHead& head, std::string_view payload) {
  if (head.stream != block_.stream) return NGHTTP2_PROTOCOL_ERROR;
  if (++continuations_ > kMostContinuations) return NGHTTP2_ENHANCE_YOUR_CALM;
  in_block_ = !(head.flags & NGHTTP2_FLAG_END_HEADERS);
  const auto* read = decoder_.add(payload, in_block_ ? BlockRest::kFollows : BlockRest::kNone);
  return in_block_ ? on_part(read) : on_block(read);
}

H2Client::Fault H2Client::on_part(const H2ClientDecoder::Head* head) {
  if (!head) return NGHTTP2_COMPRESSION_ERROR;
  if (ClientStream* stream = streams_.find(block_.stream)) answers_.part_of_block(*stream, head->bytes);
  return NGHTTP2_NO_ERROR;
}

H2Client::Fault H2Client::on_block(const H2ClientDecoder::Head* head) {
  if (!head) return NGHTTP2_COMPRESSION_ERROR;
  using Ends = H2ClientAnswers::Ends;
  ClientStream* stream = streams_.find(block_.stream);
  const bool wasted = wastes(stream, head->bytes);
  if (stream) answers_.block(*stream, *head, block_.end_stream() ? Ends::kYes : Ends::kNo);
  return wasted ? NGHTTP2_ENHANCE_YOUR_CALM : NGHTTP2_NO_ERROR;
}

bool H2Client::wastes(const ClientStream* stream, size_t bytes) {
  if (stream && bytes <= kMostFields)
    wasted_ -= std::min(wasted_, kMostFields);
  else
    wasted_ += std::max(bytes, kLeastWasted);
  return wasted_ > kMostWasted;
}

// --- settings and windows --------------------------------------------------------------------------------------------

H2Client::Fault H2Client::on_settings(const FrameHead& head, std::string_view payload) {
  constexpr size_t kEntry = 6;
  if (head.stream != 0) return NGHTTP2_PROTOCOL_ERROR;
  if (payload.size() % kEntry != 0) return NGHTTP2_FRAME_SIZE_ERROR;
  if (head.ack()) {
    if (!payload.empty()) return NGHTTP2_FRAME_SIZE_ERROR;
    if (std::exchange(settings_taken_, true)) return NGHTTP2_PROTOCOL_ERROR;
    cutter_.set_largest(kLargestPiece);
    constexpr int64_t kMore = H2ClientAnswers::kFirstWindow - kWindowBefore;
    streams_.each([](ClientStream& stream) { stream.local_window += kMore; });
    return NGHTTP2_NO_ERROR;
  }
  if (payload.size() > kEntry * kMostSettings) return NGHTTP2_ENHANCE_YOUR_CALM;
  if (!std::exchange(settings_came_, true)) allowed_ = kMostStreams;
  first_window_ = kUnset;
  for (; !payload.empty(); payload.remove_prefix(kEntry)) {
    const uint32_t id = uint32_t(uint8_t(payload[0])) << 8 | uint8_t(payload[1]);
    if (Fault fault = on_setting(id, u32_of(payload.substr(2))); fault != NGHTTP2_NO_ERROR) return fault;
  }
  if (first_window_ != kUnset && !output_.set_first_window(first_window_)) return NGHTTP2_FLOW_CONTROL_ERROR;
  if (no_priorities_ == kUnset) no_priorities_ = 0;  // RFC 9218 §2.1: the first SETTINGS frame says it for good
  return output_.acknowledge(H2Frame::kSettings, {}) ? NGHTTP2_NO_ERROR : NGHTTP2_ENHANCE_YOUR_CALM;
}

H2Client::Fault H2Client::on_setting(uint32_t id, uint32_t value) {
  auto if_good = [](bool good, Fault fault) { return good ? NGHTTP2_NO_ERROR : fault; };
  switch (id) {
    case NGHTTP2_SETTINGS_HEADER_TABLE_SIZE: return if_good(output_.resize_table(value), NGHTTP2_INTERNAL_ERROR);
    case NGHTTP2_SETTINGS_ENABLE_PUSH: return if_good(value == 0, NGHTTP2_PROTOCOL_ERROR);  // §6.5.2
    case NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS: allowed_ = value; return NGHTTP2_NO_ERROR;
    case NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE:
      first_window_ = value;
      return if_good(value <= uint32_t(kLastId), NGHTTP2_FLOW_CONTROL_ERROR);
    case NGHTTP2_SETTINGS_MAX_FRAME_SIZE:
      if (value < 1 << 14 || value >= 1 << 24) return NGHTTP2_PROTOCOL_ERROR;
      output_.set_largest_frame(value);
      return NGHTTP2_NO_ERROR;
    case NGHTTP2_SETTINGS_ENABLE_CONNECT_PROTOCOL: {
      const bool before = std::exchange(connects_, value == 1);
      return if_good(value == 1 || (value == 0 && !before), NGHTTP2_PROTOCOL_ERROR);
    }
    case NGHTTP2_SETTINGS_NO_RFC7540_PRIORITIES: {
      const uint32_t before = std::exchange(no_priorities_, value);
      return if_good(value <= 1 && (before == kUnset || before == value), NGHTTP2_PROTOCOL_ERROR);
    }
    default: return NGHTTP2_NO_ERROR;
  }
}

H2Client::Fault H2Client::on_window_update(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 4) return NGHTTP2_FRAME_SIZE_ERROR;
  const uint32_t by = u32_of(payload) & uint32_t(kLastId);
  if (head.stream == 0) {
    if (by == 0) return NGHTTP2_PROTOCOL_ERROR;
    return output_.widen(by) ? NGHTTP2_NO_ERROR : NGHTTP2_FLOW_CONTROL_ERROR;
  }
  if (!was_opened(head.stream)) return NGHTTP2_PROTOCOL_ERROR;
  ClientStream* stream = streams_.find(head.stream);
  if (stream && by == 0) return NGHTTP2_PROTOCOL_ERROR;
  if (stream && !output_.widen(*stream, by)) answers_.break_off(*stream, NGHTTP2_FLOW_CONTROL_ERROR);
  return NGHTTP2_NO_ERROR;
}

// --- ends ------------------------------------------------------------------------------------------------------------

H2Client::Fault H2Client::on_reset(const FrameHead& head, std::string_view payload) {
  if (payload.size() != 4) return NGHTTP2_FRAME_SIZE_ERROR;
  if (!was_opened(head.stream)) return NGHTTP2_PROTOCOL_ERROR;
  if (ClientStream* stream = streams_.find(head.stream)) answers_.reset_by_server(*stream, u32_of(payload));
  return NGHTTP2_NO_ERROR;
}

// §6.8: the last stream may only become less.
H2Client::Fault H2Client::on_goaway(const FrameHead& head, std::string_view payload) {
  if (payload.size() < 8) return NGHTTP2_FRAME_SIZE_ERROR;
  const uint32_t last = u32_of(payload) & uint32_t(kLastId);
  if (head.stream != 0 || (last > 0 && last % 2 == 0) || last > last_id_) return NGHTTP2_PROTOCOL_ERROR;
  if (++goaways_ > kMostGoaways) return NGHTTP2_ENHANCE_YOUR_CALM;
  last_id_ = last;
  finished_ = true;
  answers_.refuse_behind(int32_t(last));
  return NGHTTP2_NO_ERROR;
}

void H2Client::fail_all(const base::Status& why) {
  finished_ = dead_ = true;
  answers_.fail_all(why);
}

// --- bodies ----------------------------------------------------------------------------------------------------------

H2Client::Fault H2Client::on_data_head(const FrameHead& head) {
  if (!settings_came_ || in_block_ || !was_opened(head.stream)) return NGHTTP2_PROTOCOL_ERROR;
  ClientStream* stream = streams_.find(head.stream);
  if (!stream) return NGHTTP2_NO_ERROR;
  if (stream->whole) return NGHTTP2_STREAM_CLOSED;
  if (!stream->began) return NGHTTP2_PROTOCOL_ERROR;
  if (cutter_.at_end() && head.end_stream()) answers_.end_of_data(*stream);
  return NGHTTP2_NO_ERROR;
}

H2Client::Fault H2Client::on_data(Step kind) {
  const std::string_view piece = cutter_.payload();
  received_ += int64_t(piece.size());
  if (2 * received_ >= kConnectionWindow) output_.window_update(0, std::exchange(received_, 0));
  const int32_t id = cutter_.head().stream;
  ClientStream* stream = streams_.find(id);
  if (!stream) return NGHTTP2_NO_ERROR;
  kind == Step::kContent ? answers_.content(*stream, piece) : answers_.padding(*stream, piece.size());
  if (!cutter_.at_end() || !cutter_.head().end_stream()) return NGHTTP2_NO_ERROR;
  if (ClientStream* left = streams_.find(id)) answers_.end_of_data(*left);
  return NGHTTP2_NO_ERROR;
}

}  // namespace

std::unique_ptr<ClientCodec> make_h2_client() { return std::make_unique<H2Client>(); }

}  // namespace weir::wire
