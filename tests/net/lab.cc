#include "lab.h"
#include "wire/tls_wanted.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <deque>
#include <new>
#include <stdexcept>

namespace weir::net::lab {
namespace {

class Echo final : public wire::Codec {
 public:
  Echo(const wire::CodecEnv& env, wire::Wire&, const wire::PeerInfo&, std::string_view name)
      : lab_(static_cast<Lab&>(env.intake)), name_(name), open_(lab_.busy) {
    ++lab_.codecs, ++lab_.made;
  }
  ~Echo() override {
    lab_.report([this] { --lab_.codecs; });
  }

  void feed(std::span<const std::byte> bytes) override {
    std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    lab_.received += int(bytes.size());
    if (!lab_.canned.empty()) return feed_canned(text);
    if (!named_) put(std::string(name_) + ":");
    named_ = true;
    // Commands come whole, in a piece of their own.
    if (text.starts_with('!'))
      command(text.substr(0, text.find('\n')));
    else
      put(std::string(text));
    lab_.report();
  }
  void eof() override {
    lab_.report([this] { ++lab_.eofs; });
  }
  void closed() override {
    out_.clear();
    lab_.work();
    lab_.report([this] { ++lab_.closes; });
  }
  size_t pending(std::span<iovec> out) override {
    if (std::exchange(throws_, false)) throw std::bad_alloc();
    size_t n = std::min(out.size(), out_.size());
    for (size_t i = 0; i < n; ++i) {
      size_t from = i == 0 ? sent_ : 0;
      out[i] = {out_[i].data() + from, out_[i].size() - from};
    }
    return n;
  }
  void consumed(size_t n) override {
    backlog_ -= n;
    for (sent_ += n; !out_.empty() && sent_ >= out_.front().size(); out_.pop_front()) sent_ -= out_.front().size();
  }
  bool wants_read() const override { return !stopped_ && !held_ && backlog_ < (1 << 20); }
  bool finished() const override { return finished_; }
  bool idle() const override { return !open_; }
  void tick(base::Time) override {
    if (std::exchange(stopped_, false)) lab_.report([this] { --lab_.stopped; });
  }
  void drain(wire::Drain step) override {
    lab_.work();
    lab_.report([&] { ++(step == wire::Drain::kAnnounce ? lab_.announced : lab_.refused); });
  }
  bool flooded() const override { return flooded_; }
  std::string_view protocol() const override { return name_; }

 private:
  void put(std::string text) {
    backlog_ += text.size();
    out_.push_back(std::move(text));
  }
  void feed_canned(std::string_view text) {
    seen_ += text;
    if (seen_.find("\r\n\r\n") == std::string::npos || finished_) return;
    put(lab_.canned);
    finished_ = true;
  }
  void command(std::string_view line) {
    if (line == "!close") put("bye\n"), finished_ = true;
    if (line == "!flood") put("calm\n"), finished_ = flooded_ = true;
    if (line == "!open") open_ = true, put("opened\n");
    if (line == "!done") open_ = false, put("done\n");
    if (line == "!stop") stopped_ = true, ++lab_.stopped;
    if (line == "!hold") held_ = true, ++lab_.stopped;
    if (line == "!throw") throw std::bad_alloc();
    if (line == "!throw later") throws_ = true;
    if (line == "!throw a library's") throw std::runtime_error("broken");
    if (line.starts_with("!send ") || line.starts_with("!last ") || line.starts_with("!over ")) {
      size_t n = 0;
      std::from_chars(line.data() + 6, line.data() + line.size(), n);
      put(pattern(n));
      finished_ = line[1] != 's', held_ = line[1] == 'o';
    }
  }

  Lab& lab_;
  std::string_view name_;
  std::deque<std::string> out_;
  std::string seen_;
  size_t sent_ = 0, backlog_ = 0;
  bool named_ = false, finished_ = false, flooded_ = false, open_, stopped_ = false, held_ = false, throws_ = false;
};

void be_patient(const Fd& fd) {
  timeval limit{20, 0};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

}  // namespace

void Lab::rejected(std::string_view reason, const wire::PeerInfo&) {
  report([&] { rejects_.emplace_back(reason); });
}

void Lab::work() {
  if (!slow) return;
  slow_turns.push_back(turn);
  std::this_thread::sleep_for(std::chrono::milliseconds(6));
}

void Lab::report(const std::function<void()>& change) {
  std::lock_guard lock(mutex_);
  if (change) change();
  changed_.notify_all();
}

std::vector<std::string> Lab::rejects() {
  std::lock_guard lock(mutex_);
  return rejects_;
}

bool Lab::until(const std::function<bool()>& condition) {
  auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::unique_lock<std::recursive_mutex> lock(mutex_);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    changed_.wait_for(lock, std::chrono::milliseconds(1));
  }
  return true;
}

Rig::Rig(ServerOptions options, int count, wire::Limits its_limits) : limits(its_limits) {
  if (options.listen.empty()) options.listen = {{"127.0.0.1:0"}};
  std::vector<Shard*> pointers;
  std::vector<wire::CodecEnv> envs;
  for (int i = 0; i < count; ++i) {
    shards.push_back(std::make_unique<Shard>(base::ShardId(uint16_t(i)), Pin::kNo));
    pointers.push_back(shards.back().get());
    envs.push_back({lab, slabs, limits, nullptr, nullptr, &proxies});
  }
  server = std::make_unique<Server>(pointers, envs, std::move(options), metrics);
  for (auto& shard : shards) shard->start();
}

Rig::~Rig() {
  server.reset();
  for (auto& shard : shards) shard->stop();
  for (auto& shard : shards) shard->join();
}

Running::Running(ServerOptions options, int count, wire::Limits its_limits)
    : Rig(std::move(options), count, its_limits) {
  auto status = server->bind();
  if (!status.ok()) throw std::runtime_error(status.text);
  server->start();
}

uint16_t Rig::port(size_t i) const {
  auto text = server->bound().at(i);
  return uint16_t(std::stoul(text.substr(text.rfind(':') + 1)));
}

std::string Rig::metric(const std::string& series) const {
  auto text = metrics.text();
  size_t at = text.find("\n" + series + " ");
  if (at == std::string::npos) return {};
  at += series.size() + 2;
  return text.substr(at, text.find('\n', at) - at);
}

Peer::Peer(uint16_t port, const char* address, const char* from)
    : fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in own{};
  own.sin_family = AF_INET;
  if (from && (::inet_pton(AF_INET, from, &own.sin_addr) != 1 ||
               ::bind(fd_.get(), reinterpret_cast<sockaddr*>(&own), sizeof own) != 0)) {
    fd_.reset();
    return;
  }
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  ::inet_pton(AF_INET, address, &to.sin_addr);
  be_patient(fd_);
  if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fd_.reset();
}

Peer::Peer(const std::string& unix_path) : fd_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  std::strncpy(to.sun_path, unix_path.c_str(), sizeof to.sun_path - 1);
  be_patient(fd_);
  if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&to), sizeof to) != 0) fd_.reset();
}

bool Peer::send(std::string_view text) {
  while (!text.empty()) {
    ssize_t n = ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL);
    if (n < 0) return false;
    text.remove_prefix(size_t(n));
  }
  return true;
}

std::string Peer::read(size_t n) {
  std::string out(n, '\0');
  size_t have = 0;
  while (have < n) {
    ssize_t got = ::recv(fd_.get(), out.data() + have, n - have, 0);
    if (got < 0) error_ = errno;
    if (got <= 0) break;
    have += size_t(got);
  }
  out.resize(have);
  return out;
}

std::string Peer::read_all() {
  std::string out;
  for (;;) {
    auto piece = read(64 << 10);
    out += piece;
    if (piece.size() < (64 << 10)) return out;
  }
}

bool Peer::ended() {
  char byte;
  ssize_t n = ::recv(fd_.get(), &byte, 1, 0);
  if (n < 0) error_ = errno;
  return n == 0 || (n < 0 && errno != EAGAIN);
}

void Peer::half_close() { ::shutdown(fd_.get(), SHUT_WR); }

void Peer::reset() {
  linger now{1, 0};
  ::setsockopt(fd_.get(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
  fd_.reset();
}

std::string pattern(size_t n) {
  std::string out(n, '\0');
  for (size_t i = 0; i < n; ++i) out[i] = char('a' + (i * 7 + i / 251) % 26);
  return out;
}

ServerOptions loopback() {
  ServerOptions options;
  options.listen = {{"127.0.0.1:0"}};
  return options;
}

}  // namespace weir::net::lab

namespace weir::wire {

std::unique_ptr<Codec> make_sniff(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<net::lab::Echo>(env, wire, peer, "sniff");
}
std::unique_ptr<Codec> make_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<net::lab::Echo>(env, wire, peer, "h1");
}
std::unique_ptr<Codec> make_h2(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<net::lab::Echo>(env, wire, peer, "h2");
}
std::unique_ptr<Codec> make_tls_wanted(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<net::lab::Echo>(env, wire, peer, "tls_wanted");
}

}  // namespace weir::wire
