#include "engines/forward/origin_conn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace weir::forward {

using base::Code;
using base::Status;

OriginConn::OriginConn(net::Shard& shard, const Target& target, Origin& origin)
    : shard_(shard), target_(target), origin_(origin) {}

OriginConn::~OriginConn() {
  base::check(waiting_.empty(), "a connection outlives its calls");
  shard_.env().cancel(prune_);
}

Status OriginConn::send(OriginCall& call, wire::ClientRequest request) {
  if (!conn_ && shard_.env().now() < retry_at_) return last_error_;
  const bool tls = origin_.url.scheme == net::Url::Scheme::kHttps;
  request.scheme = tls ? "https" : "http";
  request.authority = origin_.name;
  if (!target_.authorization.empty()) request.fields.add("authorization", target_.authorization);
  call.request_ = std::move(request);
  call.link_ = nullptr;
  origin_.outstanding.fetch_add(1, std::memory_order_relaxed);
  waiting_.push_back(&call);
  send_waiting();
  return {};
}

void OriginConn::connect() {
  net::ClientConn::Options how;
  how.endpoints = origin_.endpoints;
  how.http = net::ClientConn::Http::k2;
  how.connect_timeout = target_.options.connect_timeout;
  if (origin_.url.scheme == net::Url::Scheme::kHttps) how.tls = target_.tls, how.tls_host = origin_.url.host;
  used_ = false;
  net::ClientConn::Owner& self = *this;
  conn_ = std::make_unique<net::ClientConn>(shard_, std::move(how), self);
}

// The connection takes no more calls, and goes with its last one.
void OriginConn::drain() {
  draining_.push_back({std::move(conn_), std::exchange(calls_, 0)});
  open_ = false;
  prune();
}

// Later, for a codec may be on the stack.
void OriginConn::prune() {
  if (prune_ != base::TimerId::kNone) return;
  prune_ = shard_.env().at(shard_.env().now(), [this] {
    prune_ = base::TimerId::kNone;
    draining_.remove_if([](const Draining& one) { return one.calls == 0; });
  });
}

// A call's last word may come from inside, and send the next one.
void OriginConn::send_waiting() {
  if (open_ && conn_->finished()) drain();
  if (!conn_ && !waiting_.empty()) connect();
  while (open_ && conn_->has_room() && !waiting_.empty()) {
    OriginCall* call = waiting_.front();
    waiting_.pop_front();
    put(*call);
  }
}

void OriginConn::put(OriginCall& call) {
  call.link_ = conn_.get();
  used_ = true;
  ++calls_;
  const wire::ClientRequest request = std::move(call.request_);
  conn_->send(request, call);
}

void OriginConn::consume(OriginCall& call, size_t n) {
  if (call.link_) call.link_->consume(call, n);
}

void OriginConn::cancel(OriginCall& call) {
  if (call.link_) call.link_->cancel(call);
  leave(call);
}

void OriginConn::suspect(OriginCall& call) {
  if (call.link_ && call.link_ == conn_.get()) drain();
  cancel(call);
}

void OriginConn::leave(OriginCall& call) {
  if (!call.link_) std::erase(waiting_, &call);
  if (call.link_ && call.link_ == conn_.get()) --calls_;
  for (auto& one : draining_)
    if (call.link_ && call.link_ == one.conn.get() && --one.calls == 0) prune();
  call.link_ = nullptr;
  origin_.outstanding.fetch_sub(1, std::memory_order_relaxed);
  send_waiting();
}

void OriginConn::on_open(net::ClientConn& conn) {
  if (conn_.get() != &conn) return;
  open_ = true;
  retry_wait_ = base::Duration(0);
  send_waiting();
}

// Calls that were under way have failed already; those that wait have not been seen by the origin.
void OriginConn::on_closed(net::ClientConn& conn, const Status& why) {
  if (conn_.get() != &conn) {
    draining_.remove_if([&](const Draining& one) { return one.conn.get() == &conn; });
    return;
  }
  const bool was_open = std::exchange(open_, false);
  const auto gone = std::move(conn_);
  calls_ = 0;
  if (was_open && (used_ || waiting_.empty())) return send_waiting();
  retry_wait_ = std::clamp<base::Duration>(retry_wait_ * 2, kFirstRetry, kLongestRetry);
  retry_at_ = shard_.env().now() + retry_wait_;
  last_error_ = why;
  fail_waiting(why);
}

void OriginConn::fail_waiting(const Status& why) {
  while (!waiting_.empty()) {
    OriginCall* call = waiting_.front();
    waiting_.pop_front();
    call->on_failed(why);
  }
}

void OriginConn::close(const Status& why) {
  retry_at_ = base::kNever;
  last_error_ = why;
  open_ = false;
  const auto gone = std::move(conn_);
  draining_.clear();
  fail_waiting(why);
}

}  // namespace weir::forward
