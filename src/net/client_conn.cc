#include "net/client_conn.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>
#include <utility>

#include "net/socket.h"
#include "net/write_budget.h"

namespace weir::net {
namespace {

base::Status unavailable(std::string text) { return base::failure(base::Code::kUnavailable, std::move(text)); }

std::string error_words(int error) { return std::generic_category().message(error); }

}  // namespace

// The socket and its codec. Lives until the end of the turn in which its ClientConn goes.
class ClientConn::Link final : public Resident, private Socket::Owner {
 public:
  Link(ClientConn& conn, Shard::Parts& shard, Options options, ClientConn::Owner& owner);
  ~Link() override { shard_.cancel(timer_); }

  void end();  // its ClientConn goes
  bool has_room();
  wire::ClientCodec& codec() { return *codec_; }
  const wire::ClientCodec& codec() const { return *codec_; }
  void mark();
  void look_whether_to_read();

  // Resident
  void flush() override;
  void release() override {}
  bool at_rest() const override { return !marked_ && (!socket_ || socket_->at_rest()); }

 private:
  enum class State : uint8_t { kConnecting, kHandshake, kOpen, kOver };

  void connect();
  void connected();
  void opened();
  void received(std::span<const std::byte> bytes);
  void fed(std::span<const std::byte> plain);
  void write_plain();
  bool seal();
  void write_sealed();
  void go_on_next_turn();
  void stop_writing();
  void close(const base::Status& why);

  // Socket::Owner
  void on_readable() override;
  std::span<std::byte> read_to();
  void on_writable() override;
  void on_broken() override {}

  Shard::Parts& shard_;
  ClientConn* conn_;  // null: gone
  ClientConn::Owner& owner_;
  const Options options_;
  const std::unique_ptr<wire::ClientCodec> codec_;
  std::unique_ptr<Socket> socket_;
  std::unique_ptr<TlsSession> tls_;
  base::TimerId timer_ = base::TimerId::kNone;
  size_t next_ = 0;  // of the endpoints
  base::Status last_error_ = unavailable("its name has no address");
  State state_ = State::kConnecting;
  bool marked_ = false;
  bool deaf_ = false;  // the server takes nothing more
  bool full_ = false;  // has_room() was false
};

ClientConn::Link::Link(ClientConn& conn, Shard::Parts& shard, Options options, ClientConn::Owner& owner)
    : shard_(shard),
      conn_(&conn),
      owner_(owner),
      options_(std::move(options)),
      codec_(options_.http == Http::k2 ? wire::make_h2_client() : wire::make_h1_client()) {
  timer_ = shard_.at(shard_.now(), [this] {
    timer_ = shard_.at(shard_.now() + options_.connect_timeout, [this] {
      timer_ = base::TimerId::kNone;
      close(unavailable("no connection in time"));
    });
    connect();
  });
}

void ClientConn::Link::connect() {
  while (next_ < options_.endpoints.size()) {
    const Endpoint& to = options_.endpoints[next_++];
    Fd fd(::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int yes = 1;
    if (fd && to.storage.ss_family != AF_UNIX) ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    const bool begun = fd && (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&to.storage), to.size) == 0 ||
                              errno == EINPROGRESS);
    if (!begun) {
      last_error_ = unavailable("cannot connect to " + to.text() + ": " + error_words(errno));
      continue;
    }
    Socket::Owner& self = *this;
    socket_ = std::make_unique<Socket>(shard_, std::move(fd), self);
    return socket_->await_write();
  }
  close(last_error_);
}

void ClientConn::Link::on_writable() {
  if (state_ != State::kConnecting) return mark();
  int error = 0;
  socklen_t size = sizeof error;
  ::getsockopt(socket_->descriptor(), SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) return connected();
  last_error_ = unavailable("cannot connect to " + options_.endpoints[next_ - 1].text() + ": " + error_words(error));
  connect();
}

void ClientConn::Link::connected() {
  if (!options_.tls) return opened();
  state_ = State::kHandshake;
  tls_ = std::make_unique<TlsSession>(*options_.tls, options_.tls_host, TlsSession::Memory{shard_.memory});
  received({});
  if (state_ == State::kOver) return;
  socket_->await_read();
  write_sealed();
}

void ClientConn::Link::opened() {
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (tls_ && options_.http == Http::k2 && tls_->alpn() != "h2")
    return close(unavailable("the server does not offer HTTP/2 by ALPN"));
  state_ = State::kOpen;
  mark();  // HTTP/2 speaks first
  socket_->await_read();
  owner_.on_open(*conn_);
}

void ClientConn::Link::mark() {
  if (state_ == State::kOver || std::exchange(marked_, true)) return;
  shard_.mark(*this);
}

void ClientConn::Link::look_whether_to_read() {
  if (state_ == State::kOpen && codec_->wants_read()) socket_->await_read();
}

// The buffer of the next read: the codec's receive_buffer(), if that is large, and else the shard's.
std::span<std::byte> ClientConn::Link::read_to() {
  constexpr size_t kLeast = 16 << 10;
  const auto buffer = tls_ || state_ != State::kOpen ? std::span<std::byte>() : codec_->receive_buffer();
  if (buffer.size() < kLeast) return {shard_.read_buffer.get(), Shard::Parts::kReadBuffer};
  return buffer.first(std::min(buffer.size(), Shard::Parts::kReadBuffer));
}

void ClientConn::Link::on_readable() {
  const auto to = read_to();
  auto moved = socket_->read(to);
  shard_.turn_bytes += moved.n;
  switch (moved.fate) {
    case Socket::Fate::kNone: break;
    case Socket::Fate::kEof: return close(unavailable("the server has closed the connection"));
    case Socket::Fate::kError: return close(unavailable("the connection broke: " + error_words(moved.error)));
    case Socket::Fate::kSome: received(to.first(moved.n));
  }
  if (state_ == State::kOver) return;
  if (state_ == State::kHandshake) socket_->await_read();
  look_whether_to_read();
  mark();
}

void ClientConn::Link::received(std::span<const std::byte> bytes) {
  if (!tls_) return fed(bytes);
  auto& plain = shard_.plain_buffer;
  if (!plain) plain.reset(new std::byte[Shard::Parts::kReadBuffer]);
  tls_->feed(bytes);
  while (state_ != State::kOver) {
    const size_t n = tls_->open({plain.get(), Shard::Parts::kReadBuffer}, shard_.now());
    if (tls_->state() == TlsSession::State::kFailed) return close(unavailable("TLS failed: " + tls_->error()));
    if (state_ == State::kHandshake && tls_->state() == TlsSession::State::kOpen) opened();
    if (n == 0 || state_ == State::kOver) break;
    fed({plain.get(), n});
  }
  if (state_ != State::kOver && tls_->state() == TlsSession::State::kPeerClosed)
    close(unavailable("the server has closed the connection"));
}

void ClientConn::Link::fed(std::span<const std::byte> plain) {
  codec_->feed(plain);
  mark();
}

void ClientConn::Link::flush() {
  marked_ = false;
  if (state_ != State::kHandshake && state_ != State::kOpen) return;
  if (!deaf_) tls_ ? write_sealed() : write_plain();
  if (state_ == State::kOpen && codec_->finished() && codec_->idle())
    close(unavailable("the server takes no more requests on this connection"));
  if (full_ && conn_ && has_room()) owner_.on_room(*conn_);
}

bool ClientConn::Link::has_room() {
  if (state_ != State::kOpen) return false;
  full_ = !codec_->has_room();
  return !full_;
}

// The rest of a large request is for the next turn: the answers of the shard's other connections come first.
void ClientConn::Link::write_plain() {
  std::array<iovec, 16> pieces;
  for (size_t budget = kWrittenPerTurn; budget != 0;) {
    size_t count = codec_->pending(pieces);
    if (count == 0 || state_ != State::kOpen) return;
    (void)cut_to(pieces, budget, count);
    auto moved = socket_->write({pieces.data(), count});
    if (moved.fate == Socket::Fate::kError) return stop_writing();
    if (moved.fate != Socket::Fate::kSome) return socket_->await_write();
    codec_->consumed(moved.n);
    budget -= moved.n;
  }
  go_on_next_turn();
}

// Puts the next of the codec's output into TLS; false: there is none.
bool ClientConn::Link::seal() {
  std::array<iovec, 16> pieces;
  const size_t count = state_ == State::kOpen ? codec_->pending(pieces) : 0;
  if (count == 0 || state_ != State::kOpen) return false;
  const size_t n = tls_->seal({pieces.data(), count});
  codec_->consumed(n);
  return n > 0;
}

void ClientConn::Link::write_sealed() {
  for (size_t budget = kWrittenPerTurn; budget != 0;) {
    const auto bytes = tls_->output();
    if (bytes.empty()) {
      if (!seal()) return;
      continue;
    }
    iovec piece{const_cast<std::byte*>(bytes.data()), std::min(bytes.size(), budget)};
    auto moved = socket_->write({&piece, 1});
    if (moved.fate == Socket::Fate::kError) return stop_writing();
    if (moved.fate != Socket::Fate::kSome) return socket_->await_write();
    tls_->consumed(moved.n);
    budget -= moved.n;
  }
  go_on_next_turn();
}

void ClientConn::Link::go_on_next_turn() {
  if (state_ == State::kOver || std::exchange(marked_, true)) return;
  shard_.mark_for_next_turn(*this);
}

// A server that reads no more may have answered already: an error, before it had the whole request. Reading says so.
void ClientConn::Link::stop_writing() {
  deaf_ = true;
  socket_->await_read();
}

// Answers may send, cancel, or destroy the ClientConn meanwhile.
void ClientConn::Link::close(const base::Status& why) {
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (socket_ && socket_->open()) socket_->close();
  codec_->closed(why);
  if (conn_) owner_.on_closed(*conn_, why);
}

void ClientConn::Link::end() {
  conn_ = nullptr;
  if (state_ == State::kOver) return;
  state_ = State::kOver;
  shard_.cancel(std::exchange(timer_, base::TimerId::kNone));
  if (socket_ && socket_->open()) socket_->close();
}

ClientConn::ClientConn(Shard& shard, Options options, Owner& owner)
    : shard_(shard.parts()), link_(std::make_unique<Link>(*this, shard_, std::move(options), owner)) {}

ClientConn::~ClientConn() {
  link_->end();
  shard_.retire(std::move(link_));
}

bool ClientConn::has_room() const { return link_->has_room(); }
bool ClientConn::finished() const { return link_->codec().finished(); }

void ClientConn::send(const wire::ClientRequest& request, wire::ClientAnswer& answer) {
  link_->codec().send(request, answer);
  link_->mark();
}

void ClientConn::cancel(wire::ClientAnswer& answer) {
  link_->codec().cancel(answer);
  link_->mark();
}

void ClientConn::consume(wire::ClientAnswer& answer, size_t n) {
  link_->codec().consume(answer, n);
  link_->look_whether_to_read();
  link_->mark();
}

}  // namespace weir::net
