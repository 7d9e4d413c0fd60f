// A connection without a socket, and an Intake that records: for tests of codecs, services and dialects.
#pragma once

#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/fake_env.h"
#include "wire/codec.h"
#include "wire/exchange.h"

namespace weir::support {

class FakeWire final : public wire::Wire {
 public:
  base::FakeEnv env;
  int output_calls = 0;
  bool tick_wanted = false;
  size_t in_socket = 0;  // what undelivered() says

  void output_ready() override { ++output_calls; }
  void tick_next_turn() override { tick_wanted = true; }
  base::Time now() const override { return env.now(); }
  size_t undelivered() const override { return in_socket; }
};

// A SlabSource that can be told to give nothing, or that there is little left.
class FakeSlabs final : public base::SlabSource {
 public:
  bool empty = false, is_scarce = false, only_parts_are = false;
  bool is_hopeless = false;  // while it is empty
  size_t parts = 0;
  size_t taken = 0;
  std::vector<size_t> sizes;
  base::MemoryLedger* memory = nullptr;  // slabs are not charged to it

  base::Slab* take(size_t bytes) override {
    if (empty) return nullptr;
    ++taken;
    sizes.push_back(bytes);
    return base::heap_slab(bytes);
  }
  base::Slab* take_part(size_t bytes) override {
    ++parts;
    return take(bytes);
  }
  bool hopeless(size_t) const override { return empty && is_hopeless; }
  bool scarce() const override { return is_scarce; }
  bool scarce_for_wholes() const override { return is_scarce && !only_parts_are; }
  base::MemoryLedger* ledger() override { return memory; }
};

// Takes every request with `plan`, keeps a copy of it, and calls the functions that a test sets. Without on_whole a
// complete request is answered with "ok" at once.
class FakeIntake final : public wire::Intake {
 public:
  struct Seen {
    std::string method, target, authority, body;
    int64_t content_length;
    std::vector<std::pair<std::string, std::string>> fields;
  };

  wire::Plan plan;
  std::function<wire::Plan(wire::Exchange&)> on_begin;
  std::function<void(wire::Exchange&)> on_whole;
  std::function<void(wire::Exchange&)> on_closed;

  std::vector<Seen> seen;             // in the order of begin(); the body is there after whole()
  std::vector<wire::Exchange*> open;  // begun and not closed
  size_t begun = 0, wholes = 0, closes = 0;
  std::vector<std::string> rejections;

  wire::Plan begin(wire::Exchange& x) override {
    ++begun;
    const wire::Request& r = x.request();
    seen.push_back({r.method, r.target, r.authority, {}, r.content_length, {}});
    for (size_t i = 0; i < r.fields.size(); ++i) seen.back().fields.emplace_back(r.fields[i].name, r.fields[i].value);
    open.push_back(&x);
    of_[&x] = seen.size() - 1;
    return on_begin ? on_begin(x) : plan;
  }
  void whole(wire::Exchange& x) override {
    ++wholes;
    seen[of_.at(&x)].body = x.content().view();
    if (on_whole)
      on_whole(x);
    else
      x.respond(200, "text/plain", base::Bytes::constant("ok"));
  }
  void closed(wire::Exchange& x) override {
    ++closes;
    std::erase(open, &x);
    if (on_closed) on_closed(x);
    of_.erase(&x);
  }
  void rejected(std::string_view reason, const wire::PeerInfo&) override { rejections.emplace_back(reason); }

 private:
  std::map<wire::Exchange*, size_t> of_;  // their places in `seen`
};

// An ExchangeListener that writes down what it hears into strings that the test owns.
struct Heard {
  std::string data;
  int ends = 0, drains = 0, closes = 0;
  bool complete = false;
};
class RecordingReader final : public wire::ExchangeListener {
 public:
  explicit RecordingReader(Heard& heard) : heard_(heard) {}
  void on_data(wire::Exchange&, std::span<const std::byte> piece) override {
    heard_.data.append(reinterpret_cast<const char*>(piece.data()), piece.size());
  }
  void on_end(wire::Exchange&) override { ++heard_.ends; }
  void on_drain(wire::Exchange&) override { ++heard_.drains; }
  void on_close(wire::Exchange&, bool complete) override {
    ++heard_.closes;
    heard_.complete = complete;
  }

 private:
  Heard& heard_;
};

// All output that is pending, as the socket would take it: `bite` bytes at a time (0: all that one gather shows).
inline std::string take_output(wire::Codec& codec, size_t bite = 0) {
  std::string out;
  std::array<iovec, 16> pieces;
  while (size_t n = codec.pending(pieces)) {
    std::string shown;
    for (size_t i = 0; i < n; ++i) shown.append(static_cast<const char*>(pieces[i].iov_base), pieces[i].iov_len);
    if (bite && shown.size() > bite) shown.resize(bite);
    out += shown;
    codec.consumed(shown.size());
    if (shown.empty()) break;
  }
  return out;
}

// As a connection does: to where the bytes will lie, where the codec says that.
inline void feed(wire::Codec& codec, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto to = codec.receive_buffer();
    if (to.empty()) break;
    const size_t n = std::min(to.size(), bytes.size());
    std::memcpy(to.data(), bytes.data(), n);
    codec.feed(to.first(n));
    bytes.remove_prefix(n);
  }
  if (!bytes.empty()) codec.feed(std::as_bytes(std::span(bytes)));
}

// An Exchange without a codec, for services: the test fills in the request and reads what was answered.
class FakeExchange final : public wire::Exchange {
 public:
  FakeExchange() = default;
  FakeExchange(std::string method, std::string target, std::string_view content = {}) {
    request_.method = std::move(method);
    request_.target = std::move(target);
    request_.authority = "localhost";
    request_.peer = &peer_;
    set_content(content);
  }
  ~FakeExchange() override { close(ended); }

  wire::Request& mutable_request() { return request_; }
  void set_content(std::string_view content) { set_content(base::Bytes::copy_of(content)); }
  void set_content(base::Bytes content) {
    request_.content_length = int64_t(content.size());
    content_ = std::move(content);
  }
  // As a codec does when it is over; the ExchangeListener hears of it once.
  void close(bool complete) {
    if (auto reader = std::move(listener_)) reader->on_close(*this, complete);
  }

  void head(wire::Response r) override {
    if (headed || ended) return;
    headed = true;
    record_.status = r.status;
    response = std::move(r);
    for (size_t i = 0; i < extra_fields_.size(); ++i)
      response.fields.add(extra_fields_[i].name, extra_fields_[i].value);
  }
  void body(base::Bytes piece) override {
    if (ended) return;
    sent += piece.view();
    record_.bytes_out += piece.size();
    if (!reads) fake_backlog += piece.size();
  }
  void end(wire::Fields t) override {
    if (ended) return;
    ended = true;
    trailers = std::move(t);
  }
  void reset(wire::Reset why) override {
    was_reset = true;
    reset_why = why;
    ended = true;
  }
  bool responding() const override { return headed; }
  size_t backlog() const override { return fake_backlog; }
  void consume(size_t n) override { consumed += n; }
  void expect(size_t n) override { expected.push_back(n); }
  base::Time now() const override { return time; }
  base::MemoryLedger* memory() override { return ledger; }

  wire::Response response;
  std::string sent;
  wire::Fields trailers;
  bool headed = false, ended = false, was_reset = false;
  wire::Reset reset_why = wire::Reset::kNoError;
  bool reads = true;  // false: what is said adds to fake_backlog
  size_t fake_backlog = 0, consumed = 0;
  std::vector<size_t> expected;
  base::Time time = base::Time(std::chrono::seconds(1000));
  base::MemoryLedger* ledger = nullptr;

 private:
  inline static const wire::PeerInfo peer_{"127.0.0.1:5000", wire::Security::kCleartext};  // all of one connection
};

}  // namespace weir::support
