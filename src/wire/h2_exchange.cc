#include "wire/h2_exchange.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "wire/body_starts.h"
#include "wire/limits.h"
#include "wire/router.h"
#include "wire/service_guard.h"
#include "wire/text.h"

namespace weir::wire {
namespace {

constexpr size_t kKeepField = 4096;  // a recycled Exchange keeps no more memory than an ordinary request needs
// Bytes of a piece of an answer that shares a slab, bytes of that slab, and how many pieces wait before it is worth it.
constexpr size_t kShareBelow = 1024, kLeastShared = 8 << 10, kMostShared = 128 << 10, kShareFrom = 16;

void reuse(std::string& text) {
  text.clear();
  if (text.capacity() > kKeepField) text.shrink_to_fit();
}

void reuse(Fields& fields) {
  if (fields.bytes() > kKeepField)
    fields = {};
  else
    fields.clear();
}

void clear_head(Request& request) {
  reuse(request.method);
  reuse(request.authority);
  reuse(request.target);
  reuse(request.fields);
  request.content_length = -1;
}

// A piece of a few bytes has a slab of a few hundred. If many pieces wait, the ones that follow share slabs, so that
// the memory held is about the memory charged. A shared slab is as large as all that waits, up to a limit: fewer slabs
// are faster to give back, since each that was not touched for long takes microseconds. Holders of a slice do not see
// what is written behind it.
void enqueue(H2Exchange::Out& out, base::Bytes piece) {
  const size_t n = piece.size();
  if (n > kShareBelow || out.queue.size() < kShareFrom) {
    out.tail_room = 0;
    return out.queue.push(std::move(piece));
  }
  if (n > out.tail_room) {
    base::Block block(base::heap_slab(std::clamp(out.queued, kLeastShared, kMostShared)));
    block.append(piece.data(), n);
    out.tail_room = block.room();
    return out.queue.push(block.freeze());
  }
  base::Bytes& last = out.queue.back();
  base::Slab* slab = const_cast<base::Slab*>(last.slab());
  std::memcpy(slab->data + slab->capacity - out.tail_room, piece.data(), n);
  out.tail_room -= n;
  base::retain(slab);
  last = base::Bytes(slab, last.data(), last.size() + n);
}

}  // namespace

const uint64_t H2Exchange::kOwnCost = sizeof(H2Exchange) + 512;

void H2Exchange::head(Response response) {
  if (over || out.started || out.ended) return;
  out.response = std::move(response);
  start();
}

void H2Exchange::head_of_grpc() {
  if (over || out.started || out.ended) return;
  out.grpc_head = true;
  start();
}

void H2Exchange::start() {
  out.started = true;
  int status = record_.status = out.response.status;
  out.bodiless = is_head() || bodiless(status);
  out.status = {char('0' + status / 100 % 10), char('0' + status / 10 % 10), char('0' + status % 10)};
  streams_->touch(*this);
}

void H2Exchange::body(base::Bytes piece) {
  if (over || !out.started || out.ended || out.bodiless || piece.empty()) return;
  if (!charge_piece(memory(), piece, out.small)) {
    record_.reject = reason::kOverload;
    return reset(Reset::kInternal);
  }
  out.queued += piece.size();
  out.backlog += piece.size();
  if (out.backlog >= kLowWater) out.above = true;
  record_.bytes_out += piece.size();
  usage.note(*this);
  if (auto* starts = streams_->starts(); starts && begun) starts->sent(*this, piece);
  enqueue(out, std::move(piece));
  streams_->touch(*this);
}

void H2Exchange::end(Fields trailers) {
  if (over || !out.started || out.ended) return;
  out.ended = true;
  if (!is_head()) out.trailers = std::move(trailers);
  streams_->touch(*this);
}

void H2Exchange::end_of_grpc() {
  if (over || !out.started || out.ended) return;
  out.ended = true;
  out.grpc_end = !is_head();
  streams_->touch(*this);
}

void H2Exchange::reset(Reset why) {
  if (over || out.reset || out.ended) return;
  out.reset = why;
  out.ended = true;
  streams_->touch(*this);
}

void H2Exchange::consume(size_t n) {
  if (streams_) streams_->consume(*this, n);
}

void H2Exchange::expect(size_t n) {
  if (streams_) streams_->expect(*this, n);
}

void H2Exchange::open(H2Streams& streams, int32_t stream, const PeerInfo& peer) {
  streams_ = &streams;
  stream_ = stream;
  request_.version = Version::kHttp2;
  request_.peer = &peer;
  record_.began = streams.now();
  in.moved = record_.began;
  open_stream = true;
}

bool H2Exchange::repeat(const H2HeadCache::Head& head) {
  in.grpc = head.body.grpc, in.coded = head.body.coded;
  if (request_.kept != HeadKept::kNot && head_ == head.id) {
    request_.kept = HeadKept::kAgain;
    return true;
  }
  match.reset();
  request_.method = head.method, request_.authority = head.authority, request_.target = head.target;
  request_.fields = head.fields;
  request_.content_length = head.content_length;
  request_.kept = HeadKept::kKept;
  head_ = head.id;
  return false;
}

void H2Exchange::forget_head() {
  if (request_.kept == HeadKept::kNot) return;
  request_.kept = HeadKept::kNot;
  match.reset();
  clear_head(request_);
}

void H2Exchange::recycle() {
  fields_kept_ = std::max(fields_kept_, request_.fields.bytes());
  if (fields_kept_ > kKeepField) fields_kept_ = 0;
  if (request_.kept == HeadKept::kNot) clear_head(request_);
  forget_client();
  content_ = {};
  extra_fields_.clear();
  record_.clear();
  listener_.reset();

  in = {}, flow = {};
  reuse(cookie), reuse(host);
  request_body.clear();

  out.clear();
  usage.reset();

  open_stream = begun = asked_reset = over = closed = complete = touched = false;
  stream_ = 0;
}

uint64_t H2Exchange::kept() const {
  return kOwnCost + request_.method.capacity() + request_.authority.capacity() + request_.target.capacity() +
         fields_kept_ + cookie.capacity() + host.capacity();
}

void H2Exchange::close_reader() {
  auto listener = std::move(listener_);
  notify_close(*this, listener.get(), complete);
}

void H2Exchange::abandon_output() {
  out.queue.clear();
  out.tail_room = out.front_at = out.queued = out.backlog = 0;
  out.small.fit(0);
}

void H2Exchange::ticket_back() {
  if (streams_)
    streams_->released(*this);
  else
    delete this;
}

}  // namespace weir::wire
