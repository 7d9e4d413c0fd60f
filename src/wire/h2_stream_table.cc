#include "wire/h2_stream_table.h"

#include <algorithm>
#include <utility>

#include "base/release.h"
#include "base/take_out.h"
#include "wire/body_memory.h"
#include "wire/service_guard.h"

namespace weir::wire {
namespace {

constexpr uint64_t kTables = 2 * 4096;  // of HPACK, each way (RFC 7541 §4.2), as we announce them
constexpr size_t kWorkPerStream = 2;    // live work : streams that may be open

}  // namespace

H2StreamTable::H2StreamTable(H2Connection& connection)
    : connection_(connection),
      heads_(connection.memory, base::MemoryKind::kInput, kTables,
             owner_of_heads(connection.env.bodies, connection.peer.client.get())),
      idle_since_(connection.now) {}

void H2StreamTable::touch(H2Exchange& x) {
  if (!x.touched) {
    x.touched = true;
    touched_.push_back(&x);
  }
  connection_.flush_later();
}

// An end that is closed needs no window.
void H2StreamTable::consume(H2Exchange& x, size_t n) {
  n = std::min(n, x.in.unconsumed);
  if (n == 0 || !connection_.is_open) return;
  x.in.unconsumed -= n;
  connection_.consume(n);
  if (const uint32_t by = x.flow.receive.give(n); !x.flow.whole) connection_.widen(x.stream(), by);
}

// A tensor on a long way would else be held to one window per round trip. What has its memory is consumed as it comes,
// so a wide window keeps nobody else from the connection's; that one bounds what a connection can make us keep.
void H2StreamTable::expect(H2Exchange& x, size_t n) {
  const Limits& limits = connection_.limits;
  bool wide = n > limits.stream_window && !connection_.overloaded(base::Overload::kShrink);
  if (!connection_.is_open || !x.open_stream || (!wide && !x.in.wide)) return;
  x.in.wide = wide;
  size_t window = wide ? std::min<size_t>(n, std::max(limits.conn_window, limits.stream_window)) : limits.stream_window;
  const uint32_t by = x.flow.receive.resize(std::min(int64_t(window), kH2LargestWindow));
  if (!x.flow.whole) connection_.widen(x.stream(), by);
}

// Open streams are bounded by what we have announced (h2_heads.cc). Work that was reset but still runs has room beside
// them, for the peer cannot know of it; that room bounds what rapid resets leave at work.
bool H2StreamTable::full() {
  const size_t most = connection_.limits.streams * kWorkPerStream;
  if (live_.size() < most) return false;  // before all of them are looked at
  settle();
  auto working = [](const auto& x) { return !x->closed || x->tickets() > 0; };
  return size_t(std::count_if(live_.begin(), live_.end(), working)) >= most;
}

H2Exchange& H2StreamTable::open(int32_t stream) {
  if (spare_.empty()) spare_.push_back(std::make_unique<H2Exchange>());
  H2Exchange& x = *live_.emplace_back(std::move(spare_.back()));
  spare_.pop_back();
  x.index = live_.size() - 1;
  x.pace = &connection_.pace;
  ++serving_;
  x.open(*this, stream, connection_.peer);
  if (x.charged == 0) charge_head(x, H2Exchange::kOwnCost);
  x.flow.window = connection_.first_window;
  if (connection_.settings_taken) x.flow.receive = H2ReceiveWindow(first_receive_window(connection_.limits));
  connection_.set_exchange(stream, x);
  return x;
}

bool H2StreamTable::charge_head(H2Exchange& x, size_t bytes) {
  if (x.in.no_memory) return false;
  x.in.no_memory = !heads_.take(bytes);
  if (!x.in.no_memory) x.charged += bytes;
  return !x.in.no_memory;
}

// Bytes that were never dealt with still fill the connection's window.
void H2StreamTable::end_stream(H2Exchange& x) {
  connection_.forget_exchange(x.stream());
  x.open_stream = false;
  if (x.in.unconsumed > 0) connection_.consume(std::exchange(x.in.unconsumed, 0));
  if (!x.asked_reset) connection_.guard.stream_closed(Guard::Life::kUseful);
  if (x.out.finished) connection_.guard.stream_finished();
  if (x.out.finished)
    sweep_later(x);
  else
    close(x, false);
}

void H2StreamTable::reset(H2Exchange& x, uint32_t code) {
  connection_.send_reset(x.stream(), code);
  if (!x.asked_reset) connection_.guard.glitch(connection_.now);
  end_stream(x);
}

void H2StreamTable::close(H2Exchange& x, bool complete) {
  if (x.over) return;
  x.over = true;
  x.complete = complete;
  x.request_body.clear();
  x.abandon_output();
  over_.push_back(&x);
}

void H2StreamTable::close_unfinished() {
  for (auto& x : live_)
    if (!x->out.finished) close(*x, false);
}

void H2StreamTable::close_all() {
  for (auto& x : live_) {
    x->open_stream = x->touched = false;
    close(*x, false);
    sweep_.push_back(x.get());
  }
  touched_.clear();
  settle();
}

void H2StreamTable::cut_off(H2Exchange& x, std::string_view why) {
  if (x.over || x.out.reset) return;  // it ends already, and the peer pays for that once
  x.record().reject = why;
  x.out.ended = false;  // a response that does not get away is cut off
  x.reset(Reset::kCancel);
  connection_.guard.glitch(connection_.now);
}

void H2StreamTable::settle() {
  for (size_t i = 0; i < drained_.size(); ++i)
    if (H2Exchange& x = *drained_[i]; !x.over) notify_drain(x);
  drained_.clear();
  for (size_t i = 0; i < over_.size(); ++i) {
    H2Exchange& x = *over_[i];
    x.close_reader();
    if (x.begun) {
      (void)base::attempt("a request's end", [&] {
        x.usage.settle(x);
        connection_.env.intake.closed(x);
      });
    }
    x.closed = true;
    --serving_;
    sweep_.push_back(&x);
  }
  if (!over_.empty() && serving_ == 0) idle_since_ = connection_.now;
  over_.clear();
  sweep();
}

// Exchanges that nothing refers to any more go back to the spares. One may be in the list twice, so all of them stay
// until its end.
void H2StreamTable::sweep() {
  for (size_t i = 0; i < sweep_.size(); ++i) {
    H2Exchange* x = sweep_[i];
    if (!x->closed || x->open_stream || x->marks > 0 || x->touched || x->tickets() > 0) continue;
    x->recycle();  // also: not `closed`, so a second mention in this list is passed over
    keep_spare(base::take_out(live_, *x, &H2Exchange::index));
  }
  sweep_.clear();
  dropped_.clear();
}

// With what it has grown to, if there is room for that.
void H2StreamTable::keep_spare(std::unique_ptr<H2Exchange> x) {
  const uint64_t kept = x->kept();
  heads_.give(std::exchange(x->charged, 0));
  // Many a connection asks once and is silent then: it keeps nothing, and the memory stays with the thread.
  const bool again = std::exchange(served_, true);
  if (!again || connection_.overloaded(base::Overload::kShrink) || !heads_.take(kept))
    return dropped_.push_back(std::move(x));
  x->charged = kept;
  spare_.push_back(std::move(x));
}

void H2StreamTable::drop_spares() {
  for (auto& x : spare_) heads_.give(x->charged);
  spare_.clear();
  if (!live_.empty()) return;
  heads_.trim();
  base::release(live_), base::release(spare_), base::release(dropped_);
  for (auto* list : {&touched_, &over_, &drained_, &sweep_})
    if (list->empty()) base::release(*list);
}

void H2StreamTable::release_all() {
  for (auto& x : live_)
    if (x->tickets() > 0) x.release()->orphan();
  live_.clear();
}

}  // namespace weir::wire
