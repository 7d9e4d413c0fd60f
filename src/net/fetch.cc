#include "net/fetch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "net/fetch_response.h"
#include "net/socket.h"
#include "net/tls.h"

namespace weir::net {
namespace {

using base::Code;
using base::failure;
using base::Status;

Endpoint endpoint_of(const std::string& address) {
  Endpoint out;
  auto& v4 = reinterpret_cast<sockaddr_in&>(out.storage);
  auto& v6 = reinterpret_cast<sockaddr_in6&>(out.storage);
  if (::inet_pton(AF_INET, address.c_str(), &v4.sin_addr) == 1) {
    v4.sin_family = AF_INET;
    out.size = sizeof v4;
  } else {
    int got = ::inet_pton(AF_INET6, address.c_str(), &v6.sin6_addr);
    base::check(got == 1, "parse_url() knows addresses");
    v6.sin6_family = AF_INET6;
    out.size = sizeof v6;
  }
  return out;
}

}  // namespace

namespace {
class Fetching;
}

struct WebFetcher::Parts {
  Parts(Shard& its_shard, FetchPolicy its_policy, uint64_t most)
      : shard(its_shard.parts()), policy(std::move(its_policy)), max_bytes(most) {}

  void begin_next();
  void over(Fetching& fetching);

  Shard::Parts& shard;
  const FetchPolicy policy;
  const uint64_t max_bytes;
  base::Duration timeout{};
  std::unique_ptr<Resolver> resolver;
  std::shared_ptr<const TlsContext> tls;
  std::vector<std::unique_ptr<Fetching>> live;
  std::deque<Fetching*> waiting;
  size_t running = 0;
  uint64_t serial = 0;
};

namespace {

// One fetch, from its place in the queue to its result; then the shard keeps it until its socket is at rest.
class Fetching final : public Resident, private Socket::Owner {
 public:
  Fetching(WebFetcher::Parts& home, Url url, wire::Fetcher::Receiver& receiver)
      : home_(home),
        url_(std::move(url)),
        receiver_(&receiver),
        shard_(home.shard),
        response_(home.max_bytes),
        serial(++home.serial) {}
  ~Fetching() override { shard_.cancel(timer_); }

  // The client's handle of a fetch: destroying it ends the fetch.
  struct Handle final : wire::Fetcher::Fetch {
    explicit Handle(Fetching& its) : fetching(&its) { its.handle_ = this; }
    ~Handle() override {
      if (!fetching) return;
      fetching->handle_ = nullptr;
      fetching->end();
    }
    Fetching* fetching;
  };

  // Its turn has come.
  void soon() {
    state_ = State::kConnecting;
    arm(shard_.now(), &Fetching::begin);
  }
  void begin();
  void found(std::vector<Endpoint> endpoints);

  // Resident
  void flush() override {}
  void release() override {}
  bool at_rest() const override { return !socket_ || socket_->at_rest(); }

 private:
  void arm(base::Time when, void (Fetching::*then)()) {
    shard_.cancel(timer_);
    timer_ = shard_.at(when, [this, then] {
      timer_ = base::TimerId::kNone;
      (this->*then)();
    });
  }
  void late() { fail(failure(Code::kDeadlineExceeded, "it has not come in time")); }
  void connect();
  void connected();
  void go_on();
  void received(std::span<const std::byte> bytes);
  void take(std::span<const std::byte> plain);
  void peer_ended();
  void write();
  void fail(Status why) { finish(std::move(why)); }
  void finish(base::Result<base::Bytes> result);
  void end();

  // Socket::Owner
  void on_readable() override;
  void on_writable() override;
  void on_broken() override {}

  WebFetcher::Parts& home_;
  const Url url_;
  wire::Fetcher::Receiver* receiver_;
  Shard::Parts& shard_;  // which may live longer than home_
  FetchResponse response_;
  Handle* handle_ = nullptr;
  base::TimerId timer_ = base::TimerId::kNone;
  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<TlsSession> tls_;
  std::string out_;  // of a request in cleartext
  size_t written_ = 0;
  enum class State : uint8_t { kWaiting, kConnecting, kHandshake, kReading, kOver } state_ = State::kWaiting;

 public:
  const uint64_t serial;
};

void Fetching::begin() {
  arm(shard_.now() + home_.timeout, &Fetching::late);
  if (url_.kind == Url::Host::kAddress) return found({endpoint_of(url_.host)});
  home_.resolver->look_up(url_.host, [&home = home_, mine = serial](std::vector<Endpoint> endpoints) {
    for (const auto& one : home.live)
      if (one->serial == mine) return one->found(std::move(endpoints));
  });
}

// The error is the same for a name that does not exist and for one with internal addresses, so that clients learn
// nothing about internal names.
void Fetching::found(std::vector<Endpoint> endpoints) {
  for (const auto& endpoint : endpoints) {
    if (home_.policy.allows(endpoint)) continue;
    base::log::warning("a reference leads to an address that is not public",
                       {{"host", url_.host}, {"address", endpoint.text()}});
    endpoints.clear();
    break;
  }
  if (endpoints.empty()) return fail(failure(Code::kUnavailable, "its host has no public address"));
  endpoints_ = std::move(endpoints);
  connect();
}

void Fetching::connect() {
  while (next_ < endpoints_.size()) {
    Endpoint& to = endpoints_[next_++];
    to.set_port(url_.port);
    Fd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    int got = ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size);
    if (got != 0 && errno != EINPROGRESS) continue;
    Socket::Owner& owner = *this;
    socket_ = std::make_unique<Socket>(shard_, std::move(fd), owner);
    return socket_->await_write();
  }
  fail(failure(Code::kUnavailable, "its server cannot be reached"));
}

void Fetching::on_writable() {
  if (state_ != State::kConnecting) return go_on();
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_->descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error != 0) return connect();
  connected();
}

void Fetching::connected() {
  out_ = "GET " + url_.target + " HTTP/1.1\r\nHost: " + url_.authority() +
         "\r\nUser-Agent: weir\r\nAccept: */*\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n";
  state_ = State::kReading;
  if (url_.scheme == Url::Scheme::kHttps) {
    state_ = State::kHandshake;
    tls_ = std::make_unique<TlsSession>(*home_.tls, url_.host, TlsSession::Memory{shard_.memory});
    received({});
    if (state_ == State::kOver) return;
  }
  socket_->await_read();
  go_on();
}

void Fetching::on_readable() {
  auto moved = socket_->read({shard_.read_buffer.get(), Shard::Parts::kReadBuffer});
  shard_.turn_bytes += moved.n;
  switch (moved.fate) {
    case Socket::Fate::kNone: break;
    case Socket::Fate::kEof: return peer_ended();
    case Socket::Fate::kError: return fail(failure(Code::kUnavailable, "its server has broken the connection"));
    case Socket::Fate::kSome: received({shard_.read_buffer.get(), moved.n});
  }
  if (state_ == State::kOver) return;
  socket_->await_read();
  go_on();
}

void Fetching::received(std::span<const std::byte> bytes) {
  if (!tls_) return take(bytes);
  auto& plain = shard_.plain_buffer;
  if (!plain) plain.reset(new std::byte[Shard::Parts::kReadBuffer]);
  tls_->feed(bytes);
  for (;;) {
    size_t n = tls_->open({plain.get(), Shard::Parts::kReadBuffer}, shard_.now());
    if (tls_->state() == TlsSession::State::kFailed) {
      base::log::warning("TLS to a reference's server failed", {{"host", url_.host}, {"reason", tls_->error()}});
      return fail(failure(Code::kUnavailable, "TLS to its server failed: " + tls_->error()));
    }
    if (state_ == State::kHandshake && tls_->state() == TlsSession::State::kOpen) {
      state_ = State::kReading;
      iovec request{out_.data(), out_.size()};
      tls_->seal({&request, 1});
      out_.clear();
    }
    if (n == 0) break;
    take({plain.get(), n});
    if (state_ == State::kOver) return;
  }
  if (tls_->state() == TlsSession::State::kPeerClosed) peer_ended();
}

void Fetching::take(std::span<const std::byte> plain) {
  size_t before = response_.body().size();
  if (Status s = response_.feed({reinterpret_cast<const char*>(plain.data()), plain.size()}); !s.ok())
    return fail(std::move(s));
  size_t held = response_.body().size();
  if (held > before && !receiver_->on_growth(held))
    return fail(failure(Code::kResourceExhausted, "too much is being loaded at once"));
  if (response_.done()) finish(base::Bytes::adopt(std::move(response_.body())));
}

// Without a close_notify an attacker may have cut the connection.
void Fetching::peer_ended() {
  Status s = response_.end();
  if (s.ok() && tls_ && tls_->state() != TlsSession::State::kPeerClosed)
    s = failure(Code::kUnavailable, "its server has broken the connection");
  if (!s.ok()) return fail(std::move(s));
  finish(base::Bytes::adopt(std::move(response_.body())));
}

// Writes what there is.
void Fetching::go_on() {
  for (;;) {
    std::span<const std::byte> bytes = tls_ ? tls_->output() : std::as_bytes(std::span(out_).subspan(written_));
    if (bytes.empty()) return;
    iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    auto moved = socket_->write({&piece, 1});
    if (moved.fate == Socket::Fate::kError)
      return fail(failure(Code::kUnavailable, "its server has broken the connection"));
    if (moved.fate != Socket::Fate::kSome) return socket_->await_write();
    if (tls_)
      tls_->consumed(moved.n);
    else
      written_ += moved.n;
  }
}

// The receiver may destroy the handle, but this lives until the turn's end.
void Fetching::finish(base::Result<base::Bytes> result) {
  auto* receiver = std::exchange(receiver_, nullptr);
  if (handle_) std::exchange(handle_, nullptr)->fetching = nullptr;
  end();
  if (receiver) receiver->on_fetched(std::move(result));
}

void Fetching::end() {
  if (state_ == State::kOver) return;
  bool ran = state_ != State::kWaiting;
  state_ = State::kOver;
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (socket_ && socket_->open()) socket_->close();
  home_.running -= ran;
  home_.over(*this);
}

}  // namespace

void WebFetcher::Parts::begin_next() {
  while (running < kAtOnce && !waiting.empty()) {
    Fetching* next = waiting.front();
    waiting.pop_front();
    ++running;
    next->soon();
  }
}

void WebFetcher::Parts::over(Fetching& fetching) {
  std::erase(waiting, &fetching);
  auto at = std::find_if(live.begin(), live.end(), [&](const auto& one) { return one.get() == &fetching; });
  base::check(at != live.end(), "a fetch ends once");
  shard.retire(std::move(*at));
  live.erase(at);
  begin_next();
}

base::Result<std::unique_ptr<WebFetcher>> WebFetcher::make(Shard& shard, const wire::FetchRules& rules,
                                                           uint64_t max_bytes, std::unique_ptr<Resolver> resolver) {
  auto policy = FetchPolicy::make(rules);
  if (!policy) return std::move(policy).error();
  auto parts = std::make_unique<Parts>(shard, std::move(*policy), max_bytes);
  auto tls = TlsContext::for_client(rules.ca_file);
  if (!tls) return std::move(tls).error();
  parts->tls = std::move(*tls);
  parts->timeout = rules.timeout;
  parts->resolver = resolver ? std::move(resolver) : std::make_unique<SystemResolver>(shard);
  return std::unique_ptr<WebFetcher>(new WebFetcher(std::move(parts)));
}

WebFetcher::WebFetcher(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
WebFetcher::~WebFetcher() = default;

base::Result<std::unique_ptr<wire::Fetcher::Fetch>> WebFetcher::fetch(std::string_view uri, Receiver& receiver) {
  auto url = parse_url(uri);
  if (!url) return std::move(url).error();
  if (Status s = parts_->policy.check(*url); !s.ok()) return s;
  auto& fetching = *parts_->live.emplace_back(std::make_unique<Fetching>(*parts_, std::move(*url), receiver));
  auto handle = std::make_unique<Fetching::Handle>(fetching);
  parts_->waiting.push_back(&fetching);
  parts_->begin_next();
  return std::unique_ptr<Fetch>(std::move(handle));
}

}  // namespace weir::net
