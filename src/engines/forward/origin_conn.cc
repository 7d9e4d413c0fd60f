#include "engines/forward/origin_conn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "engines/forward/kind.h"

namespace weir::forward {

using base::Code;
using base::Status;

OriginConn::OriginConn(net::Shard& shard, const Target& target, Origin& origin)
    : shard_(shard), target_(target), origin_(origin) {}

OriginConn::~OriginConn() {
  base::check(waiting_.empty(), "a connection outlives its calls");
  shard_.env().cancel(prune_);
}

Status OriginConn::send(OriginCall& call, wire::ClientRequest&& request) {
  forget_others();
  Link* const link = with_room();
  if (!link && shard_.env().now() < retry_at_) return last_error_;
  const std::string_view scheme = origin_.url().scheme == net::Url::Scheme::kHttps ? "https" : "http";
  if (request.scheme != scheme) request.scheme = scheme;
  if (request.authority != origin_.name()) request.authority = origin_.name();
  if (target_.options.load_reports == LoadReports::kOrca) request.fields.add("endpoint-load-metrics-format", "TEXT");
  if (!target_.key.empty()) request.fields.add(target_.key_field, target_.key);
  call.link_ = nullptr;
  origin_.outstanding.fetch_add(1, std::memory_order_relaxed);
  if (link && waiting_.empty()) {
    put(*link, call, request);
    return {};
  }
  call.request_ = std::make_unique<wire::ClientRequest>(std::move(request));
  call.place_ = waiting_.insert(waiting_.end(), &call);
  send_waiting();
  return {};
}

void OriginConn::note_head(const wire::Fields& fields) {
  if (target_.options.load_reports != LoadReports::kOrca) return;
  const std::string_view report = fields.find("endpoint-load-metrics");
  if (!report.empty()) origin_.report(parse_orca(report), shard_.env().now());
}

// Another server may have the place by now: it does not wait for what the one before has not answered.
void OriginConn::forget_others() {
  const uint32_t generation = origin_.generation.load(std::memory_order_acquire);
  if (std::exchange(generation_, generation) == generation || retry_at_ == base::kNever) return;
  retry_wait_ = base::Duration(0), retry_at_ = {};
  for (auto& link : links_)
    if (!link.draining && !link.open && link.generation != generation) drain(link);
}

void OriginConn::connect() {
  net::ClientConn::Options how;
  const uint32_t generation = origin_.generation.load(std::memory_order_acquire);
  how.endpoints = origin_.addresses();
  how.http = target_.kind->http();
  how.connect_timeout = target_.options.connect_timeout;
  if (origin_.url().scheme == net::Url::Scheme::kHttps) {
    how.tls = target_.tls ? target_.tls->get() : nullptr;
    how.tls_host = origin_.url().host;
  }
  net::ClientConn::Owner& self = *this;
  links_.push_front({});
  links_.front().generation = generation;
  links_.front().conn = std::make_unique<net::ClientConn>(shard_, std::move(how), self);
}

OriginConn::Link* OriginConn::find(const net::ClientConn* conn) {
  auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.conn.get() == conn; });
  return conn == nullptr || found == links_.end() ? nullptr : &*found;
}

void OriginConn::drain(Link& link) {
  link.draining = true;
  prune();
}

// Later, for a codec may be on the stack.
void OriginConn::prune() {
  if (prune_ != base::TimerId::kNone) return;
  prune_ = shard_.env().at(shard_.env().now(), [this] {
    prune_ = base::TimerId::kNone;
    links_.remove_if([](const Link& link) { return link.draining && link.calls == 0; });
  });
}

OriginConn::Link* OriginConn::with_room() {
  for (auto& link : links_) {
    if (link.draining || !link.open) continue;
    if (link.conn->finished() || link.generation != origin_.generation.load(std::memory_order_acquire))
      drain(link);
    else if (link.conn->has_room())
      return &link;
  }
  return nullptr;
}

// HTTP/2: one connection for all; HTTP/1.1: one for each that waits.
void OriginConn::connect_for_waiting() {
  const bool shared = target_.kind->http() == net::ClientConn::Http::k2;
  size_t coming = 0, kept = 0;
  for (const auto& link : links_) coming += !link.open && !link.draining, kept += !link.draining;
  if (shared && kept > 0) return;
  const size_t wanted = shared ? std::min<size_t>(waiting_.size(), 1) : waiting_.size();
  for (; coming < wanted && kept < kMostConnections; ++coming, ++kept) connect();
}

// A call's last word may come from inside, and send the next one.
void OriginConn::send_waiting() {
  while (!waiting_.empty()) {
    Link* link = with_room();
    if (!link) break;
    OriginCall& call = *waiting_.front();
    const auto request = take_waiting(call);
    put(*link, call, *request);
  }
  connect_for_waiting();
}

std::unique_ptr<wire::ClientRequest> OriginConn::take_waiting(OriginCall& call) {
  waiting_.erase(call.place_);
  return std::move(call.request_);
}

void OriginConn::put(Link& link, OriginCall& call, const wire::ClientRequest& request) {
  call.link_ = link.conn.get();
  call.reused_ = std::exchange(link.used, true);
  ++link.calls;
  link.conn->send(request, call);
}

void OriginConn::consume(OriginCall& call, size_t n) {
  if (call.link_) call.link_->consume(call, n);
}

void OriginConn::cancel(OriginCall& call) {
  if (call.link_) call.link_->cancel(call);
  leave(call);
}

void OriginConn::suspect(OriginCall& call) {
  if (Link* link = find(call.link_)) drain(*link);
  cancel(call);
}

void OriginConn::leave(OriginCall& call) {
  if (call.request_) take_waiting(call);
  if (Link* link = find(call.link_)) {
    --link->calls;
    if (link->open && link->conn->finished()) link->draining = true;
    if (link->draining && link->calls == 0) prune();
  }
  call.link_ = nullptr;
  origin_.outstanding.fetch_sub(1, std::memory_order_relaxed);
  if (!waiting_.empty()) send_waiting();
}

void OriginConn::on_open(net::ClientConn& conn) {
  Link* link = find(&conn);
  if (!link) return;
  link->open = true;
  retry_wait_ = base::Duration(0), retry_at_ = {};
  send_waiting();
}

// Calls that were under way have failed already; those that wait have not been seen by the origin. They do not wait for
// connections that are busy: a stream may last for hours, and another origin may take them now.
void OriginConn::on_closed(net::ClientConn& conn, const Status& why) {
  auto found = std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.conn.get() == &conn; });
  if (found == links_.end()) return;
  std::list<Link> gone;
  gone.splice(gone.begin(), links_, found);
  const Link& link = gone.front();
  if (link.draining) return;
  if (link.open && (link.used || waiting_.empty())) return send_waiting();
  retry_wait_ = std::clamp<base::Duration>(retry_wait_ * 2, kFirstRetry, kLongestRetry);
  retry_at_ = shard_.env().now() + retry_wait_;
  last_error_ = why;
  fail_waiting(why);
}

void OriginConn::fail_waiting(const Status& why) {
  while (!waiting_.empty()) {
    OriginCall& call = *waiting_.front();
    take_waiting(call);
    call.on_failed(why);
  }
}

void OriginConn::close(const Status& why) {
  retry_at_ = base::kNever;
  last_error_ = why;
  links_.clear();
  fail_waiting(why);
}

}  // namespace weir::forward
