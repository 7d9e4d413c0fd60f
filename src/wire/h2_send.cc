// From Exchanges to frames and to the socket.
#include <algorithm>

#include "wire/date.h"
#include "wire/h2_session.h"

namespace weir::wire {
namespace {

constexpr size_t kOutputTarget = 256 << 10;  // gathered ahead of the socket; more waits in its streams, for fairness
constexpr size_t kCopyBelow = 4096;          // smaller pieces are cheaper to copy than to point at
constexpr size_t kFrame = 16 << 10, kLargeFrame = 64 << 10;

uint32_t code_of(Reset why) {
  switch (why) {
    case Reset::kCancel: return NGHTTP2_CANCEL;
    case Reset::kInternal: return NGHTTP2_INTERNAL_ERROR;
    case Reset::kRefused: return NGHTTP2_REFUSED_STREAM;
    case Reset::kNoError: return NGHTTP2_NO_ERROR;
  }
  return NGHTTP2_INTERNAL_ERROR;
}

// RFC 9113 §8.2.2: about the connection, so of no use in a stream.
bool connection_specific(std::string_view name) {
  switch (name.empty() ? 0 : name[0]) {
    case 'c': return name == "connection";
    case 'k': return name == "keep-alive";
    case 'p': return name == "proxy-connection";
    case 't': return name == "transfer-encoding";
    case 'u': return name == "upgrade";
  }
  return false;
}

// Neither is copied by the library: both live in the Exchange until its stream is gone.
nghttp2_nv nv_of(std::string_view name, std::string_view value) {
  auto bytes = [](std::string_view text) { return reinterpret_cast<uint8_t*>(const_cast<char*>(text.data())); };
  return {bytes(name), bytes(value), name.size(), value.size(),
          NGHTTP2_NV_FLAG_NO_COPY_NAME | NGHTTP2_NV_FLAG_NO_COPY_VALUE};
}

}  // namespace

void H2::touch(H2Exchange& x) {
  if (!x.touched) {
    x.touched = true;
    touched_.push_back(&x);
  }
  if (inside_ == Inside::kNothing) wire_.output_ready();
}

// Frames of all streams, up to the target.
void H2::fill() {
  inside_ = Inside::kLibrary;
  submit_touched();
  // After its last GOAWAY the library would still give what it has queued.
  while (output_.size() < kOutputTarget && !(goaway_sent_ && session_over())) {
    const uint8_t* at = nullptr;
    ssize_t n = nghttp2_session_mem_send(session_, &at);
    if (n > 0) output_.copy(at, size_t(n));
    if (ending_) mark(*std::exchange(ending_, nullptr), 0, true);
    if (n < 0) condemn(reason::kParse, H2Error::kInternal, "cannot send");
    if (n <= 0) break;
  }
  inside_ = Inside::kNothing;
}

void H2::submit_touched() {
  for (size_t i = 0; i < touched_.size(); ++i) {
    H2Exchange& x = *touched_[i];
    x.touched = false;
    if (!x.open_stream || x.over) {
      sweep_.push_back(&x);
    } else if (x.out.reset) {
      x.asked_reset = true;
      nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, x.stream(), code_of(*x.out.reset));
    } else if (x.out.started && !x.out.submitted) {
      submit_head(x);
    } else {
      nghttp2_session_resume_data(session_, x.stream());  // an error says that it had not been deferred
    }
  }
  touched_.clear();
}

void H2::add_fields(const Fields& fields) {
  for (size_t i = 0; i < fields.size(); ++i) {
    auto [name, value] = fields[i];
    if (!connection_specific(name)) nva_.push_back(nv_of(name, value));
  }
}

void H2::submit_head(H2Exchange& x) {
  x.out.submitted = true;
  nva_.clear();
  nva_.push_back(nv_of(":status", {x.out.status.data(), x.out.status.size()}));
  // gRPC's clients do without: its bytes are saved.
  if (env_.date && !x.in.grpc) nva_.push_back(nv_of("date", env_.date->value()));
  add_fields(x.out.response.fields);
  add_fields(x.extra_fields());
  bool bare = x.out.ended && x.out.queued == 0 && x.out.trailers.size() == 0;
  if (!bare && (!x.out.ended || x.out.queued > kLargeFrame)) {
    nghttp2_extpri share{NGHTTP2_EXTPRI_DEFAULT_URGENCY, 1};  // takes turns with the others
    nghttp2_session_change_extpri_stream_priority(session_, x.stream(), &share, 1);
  }
  nghttp2_data_provider body;
  body.source.ptr = &x;
  body.read_callback = [](nghttp2_session*, int32_t, uint8_t*, size_t max, uint32_t* flags, nghttp2_data_source* source,
                          void* user) -> ssize_t {
    return static_cast<H2*>(user)->read_body(*static_cast<H2Exchange*>(source->ptr), max, *flags);
  };
  nghttp2_submit_response(session_, x.stream(), nva_.data(), nva_.size(), bare ? nullptr : &body);
}

ssize_t H2::frame_size(int32_t stream, uint32_t max_frame) const {
  const H2Exchange* x = exchange_of(stream);
  size_t want = x && x->out.queued > kFrame ? std::min(x->out.queued, kLargeFrame) : kFrame;
  return ssize_t(std::min<size_t>(want, max_frame));
}

ssize_t H2::read_body(H2Exchange& x, size_t max, uint32_t& flags) {
  size_t n = std::min(max, x.out.queued);
  if (n == 0 && !x.out.ended) return NGHTTP2_ERR_DEFERRED;
  flags |= NGHTTP2_DATA_FLAG_NO_COPY;
  if (!x.out.ended || n < x.out.queued) return ssize_t(n);
  flags |= NGHTTP2_DATA_FLAG_EOF;
  if (x.out.trailers.size() == 0) return ssize_t(n);
  flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
  nva_.clear();
  add_fields(x.out.trailers);
  nghttp2_submit_trailer(session_, x.stream(), nva_.data(), nva_.size());
  return ssize_t(n);
}

int H2::send_body(H2Exchange& x, const uint8_t* head, size_t n) {
  constexpr size_t kFrameHead = 9;
  output_.copy(head, kFrameHead);
  auto& out = x.out;
  for (size_t left = n; left > 0;) {
    base::Bytes& front = out.queue.front();
    size_t part = std::min(left, front.size() - out.front_at);
    if (part < kCopyBelow)
      output_.copy(front.data() + out.front_at, part);
    else
      output_.refer(front.slice(out.front_at, part));
    out.front_at += part;
    left -= part;
    if (out.front_at < front.size()) continue;
    out.queue.pop();
    out.front_at = 0;
  }
  out.queued -= n;
  out.floor.add(n);
  x.in.moved = now_;
  mark(x, n, false);
  return output_.size() < kOutputTarget ? 0 : NGHTTP2_ERR_PAUSE;  // else the library goes on as long as there is DATA
}

int H2::on_frame_sent(const nghttp2_frame& frame) {
  const nghttp2_frame_hd& hd = frame.hd;
  guard_.sent({uint32_t(hd.length), H2Frame(hd.type), hd.flags, hd.stream_id, false});
  bool data = hd.type == NGHTTP2_DATA;
  if ((data || hd.type == NGHTTP2_HEADERS) && (hd.flags & NGHTTP2_FLAG_END_STREAM)) {
    H2Exchange* x = exchange_of(hd.stream_id);
    if (!x) return 0;
    x->out.finished = true;
    // DATA is in the output by now; of another frame the library has not yet given us the bytes.
    data ? mark(*x, 0, true) : void(ending_ = x);
    x->out.finished_at = now_;
    check_unread(*x);
  } else if (hd.type == NGHTTP2_RST_STREAM) {
    H2Exchange* x = exchange_of(hd.stream_id);
    if (x && x->asked_reset) return 0;
    // The peer cannot know how much of its work still runs here, nor, before its ACK, how many streams it may open.
    if (frame.rst_stream.error_code == NGHTTP2_REFUSED_STREAM) return 0;
    if (owed_resets_ > 0)
      --owed_resets_;  // counted when the frame that caused it came
    else
      guard_.glitch(now_);
  } else if (hd.type == NGHTTP2_GOAWAY) {
    goaway_sent_ = true;
    if (frame.goaway.error_code == NGHTTP2_NO_ERROR || rejected_) return 0;
    rejected_ = true;  // the library's own verdict
    env_.intake.rejected(reason::kParse, peer_);
  }
  return 0;
}

// A head that cannot be sent (too large for the library) must not leave its stream hanging.
int H2::on_frame_not_sent(const nghttp2_frame& frame) {
  H2Exchange* x = frame.hd.type == NGHTTP2_HEADERS ? exchange_of(frame.hd.stream_id) : nullptr;
  if (!x || !x->open_stream || x->asked_reset) return 0;
  x->asked_reset = true;
  nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, frame.hd.stream_id, NGHTTP2_INTERNAL_ERROR);
  return 0;
}

void H2::mark(H2Exchange& x, size_t bytes, bool end) {
  if (!marks_.empty() && marks_.back().exchange == &x) {  // nothing of another stream lies between
    Mark& last = marks_.back();
    last.at = output_.put();
    last.bytes += bytes;
    last.end = end;
    return;
  }
  ++x.marks;
  marks_.push({output_.put(), &x, bytes, end});
}

// What the socket has taken, stream by stream.
void H2::pass_marks() {
  while (!marks_.empty() && marks_.front().at <= output_.taken()) {
    Mark m = marks_.front();
    marks_.pop();
    H2Exchange& x = *m.exchange;
    --x.marks;
    if (!x.over) {
      x.out.backlog -= m.bytes;
      x.out.small.fit(x.out.backlog);
      if (m.end) {
        close_exchange(x, true);
      } else if (x.out.above && x.out.backlog < Exchange::kLowWater) {
        x.out.above = false;
        drained_.push_back(&x);
      }
    }
    if (x.over) sweep_.push_back(&x);
  }
}

size_t H2::pending(std::span<iovec> out) {
  if (!dead_) {
    fill();
    while (output_.empty() && !stash_.empty() && !dead_ && digest_stash())
      if (!dead_) fill();
    if (guard_.verdict()) die();
    if (session_over()) abort_all();
    if (output_.empty()) settle();
  }
  return output_.gather(out);
}

void H2::consumed(size_t n) {
  now_ = wire_.now();
  output_.consumed(n);
  drain_floor_.add(n);
  if (output_.empty()) {
    guard_.drained();
  } else if (output_.taken() >= control_mark_) {  // the output of a long download is never empty
    guard_.passed();
    control_mark_ = output_.put();
  }
  pass_marks();
  if (!dead_ && !stash_.empty()) digest_stash();
  settle();
  // The library may have more: what waited for room in the output, or answers to the stash.
  if (!dead_ && (!touched_.empty() || nghttp2_session_want_write(session_))) wire_.output_ready();
}

}  // namespace weir::wire
