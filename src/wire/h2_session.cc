#include "wire/h2_session.h"

#include <algorithm>
#include <exception>
#include <new>
#include <utility>

#include "base/log.h"
#include "base/release.h"
#include "wire/body_memory.h"

namespace weir::wire {
namespace {

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr int32_t kLastOfAll = 0x7fffffff;  // stream
constexpr base::Duration kLastFlush = std::chrono::seconds(1);
constexpr base::Duration kH2ShortIdle = std::chrono::seconds(2);  // where memory is short, or a client may hang
constexpr base::Duration kLastStreams = std::chrono::minutes(5);  // those that were there when a body was reset

}  // namespace

H2Session::H2Session(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
    : connection_(env, wire, peer),
      streams_(connection_),
      bodies_(connection_, streams_),
      sender_(connection_, streams_),
      receiver_(connection_, streams_, bodies_, sender_),
      walker_(kPreface.size()),
      opened_(connection_.now),
      stash_charge_(connection_.memory, base::MemoryKind::kInput, 0,
                    owner_of_heads(env.bodies, connection_.peer.client.get())) {
  connection_.inside = true;
  receiver_.open();
  fit_window();
  connection_.inside = false;
}

H2Session::~H2Session() { closed(); }

// Nothing counts behind the GOAWAY that is the end: its client may ask again elsewhere.
void H2Session::feed(std::span<const std::byte> bytes) {
  if (connection_.dead || connection_.terminated || eof_) return;
  if (!stash_.empty()) return keep(bytes);
  size_t used = digest(bytes);
  if (used < bytes.size()) keep(bytes.subspan(used));
  streams_.settle();
}

std::span<std::byte> H2Session::receive_buffer() {
  const size_t here = walker_.large_payload();
  if (here == 0 || connection_.dead || eof_ || !stash_.empty()) return {};
  const auto to = bodies_.receive_buffer(walker_.head().stream);
  return to.first(std::min(to.size(), here));
}

// Behind what is kept already. Where that has no memory, the connection ends: what it has sent cannot be asked for
// again.
void H2Session::keep(std::span<const std::byte> bytes) {
  if (!stash_charge_.take(bytes.size())) {
    connection_.condemn(reason::kOverload, H2Error::kEnhanceYourCalm, "no memory for what was read");
    die();
  } else {
    stash_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  connection_.wire.output_ready();
}

// One helping: as much as may start within one read. Returns what it used.
size_t H2Session::digest(std::span<const std::byte> bytes) {
  connection_.now = helped_ = connection_.wire.now();
  connection_.inflating.enter(connection_.now);
  connection_.resting = false;
  size_t used = admit(bytes);
  if (!connection_.guard.verdict()) catching([&] { receive(bytes.first(used)); });
  if (connection_.guard.verdict()) die();
  return connection_.dead ? bytes.size() : used;
}

size_t H2Session::admit(std::span<const std::byte> bytes) {
  connection_.guard.new_read();
  size_t at = 0;
  bool found = false;
  while (at < bytes.size()) {
    at += walker_.walk(bytes.data() + at, bytes.size() - at, found);
    if (!found) continue;
    if (walker_.head().type != H2Frame::kContinuation) inside_since_ = base::kNever;  // the one before it is complete
    if (!connection_.guard.frame(walker_.head(), connection_.now)) break;
    if (Verdict broken = rules_.check(walker_.head())) {
      connection_.guard.condemn(broken);
      break;
    }
    if (connection_.guard.enough()) break;
  }
  if (!walker_.inside())
    inside_since_ = base::kNever;
  else if (inside_since_ == base::kNever)
    inside_since_ = connection_.now;
  return at;
}

// An exception ends the connection: nobody knows what it has left undone.
template <class Work>
void H2Session::catching(Work work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    connection_.condemn(reason::kOverload, H2Error::kInternal, "out of memory");
  } catch (const std::exception& e) {
    base::log::error("a connection ends by an exception", {{"what", e.what()}});
    connection_.condemn(reason::kOverload, H2Error::kInternal, "cannot go on");
  }
  connection_.inside = false;
}

void H2Session::receive(std::span<const std::byte> bytes) {
  connection_.inside = true;
  std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (preface_ < kPreface.size() && !take_preface(text))
    return connection_.condemn(reason::kPreface, H2Error::kProtocol, "bad connection preface");
  receiver_.receive(text);
}

// Takes it from the front of `bytes`. False: they are something else.
bool H2Session::take_preface(std::string_view& bytes) {
  const std::string_view part = kPreface.substr(preface_, bytes.size());
  if (!bytes.starts_with(part)) return false;
  preface_ += uint8_t(part.size());
  bytes.remove_prefix(part.size());
  return true;
}

// One helping in each turn of the loop, so that others have theirs. False: not in this turn.
bool H2Session::digest_stash() {
  if (helped_ == connection_.wire.now()) {
    connection_.wire.tick_next_turn();
    return false;
  }
  std::string rest = std::move(stash_);
  stash_.clear();
  size_t used = digest(std::as_bytes(std::span(rest)));
  if (connection_.dead) return true;
  if (used < rest.size()) {
    rest.erase(0, used);
    stash_ = std::move(rest);
    stash_charge_.give(used);
    connection_.wire.output_ready();
    return true;
  }
  drop_stash();
  if (eof_) cancel_unanswered();
  return true;
}

void H2Session::drop_stash() {
  base::release(stash_);
  stash_charge_.give(stash_charge_.used());
  stash_charge_.trim();
}

// The verdict is carried out: what is in the output already, GOAWAY, the end.
void H2Session::die() {
  if (connection_.dead) return;
  connection_.dead = true;
  dead_at_ = connection_.now;
  drop_stash();
  streams_.close_unfinished();
  if (connection_.rejected) return;
  connection_.rejected = true;
  const Verdict& v = connection_.guard.verdict();
  connection_.env.intake.rejected(v.reason, connection_.peer);
  connection_.frames.goaway(connection_.last_taken, uint32_t(v.code), v.text);
}

bool H2Session::finished() const {
  if (connection_.dead) return true;
  if (!stash_.empty() || streams_.has_touched()) return false;
  return connection_.session_over() || (eof_ && streams_.serving() == 0 && !sender_.wants_write());
}

// Slow peers are told to calm down, too, but a slow one costs nobody work.
bool H2Session::flooded() const {
  const Verdict& v = connection_.guard.verdict();
  return connection_.dead && v.code == H2Error::kEnhanceYourCalm && v.reason != reason::kSlowHeader &&
         v.reason != reason::kSlowRead && v.reason != reason::kOverload;
}

// The peer sends no more: it has gone, as far as anybody can tell (h1_session.cc does the same). What has been answered
// by now is still sent.
void H2Session::eof() {
  if (connection_.dead) return;
  eof_ = true;
  if (stash_.empty()) return cancel_unanswered();
  connection_.wire.output_ready();  // the stash comes first, in helpings as ever
}

void H2Session::cancel_unanswered() {
  for (auto& x : streams_.live()) x->reset(Reset::kCancel);  // which passes over what has ended
}

void H2Session::closed() {
  if (!connection_.is_open) return;
  connection_.now = connection_.wire.now();
  connection_.dead = true;
  drop_stash();
  sender_.drop_output();
  connection_.inside = true;  // nobody flushes any more
  connection_.is_open = false;
  streams_.close_all();
  streams_.release_all();
}

size_t H2Session::pending(std::span<iovec> out) {
  H2Output& output = connection_.frames.output;
  if (!connection_.dead) {
    catching([&] { sender_.fill(); });
    while (output.empty() && !stash_.empty() && !connection_.dead && digest_stash())
      if (!connection_.dead) catching([&] { sender_.fill(); });
    if (connection_.guard.verdict()) die();
    if (connection_.session_over()) streams_.close_unfinished();
    if (output.empty()) streams_.settle();
  }
  return output.gather(out);
}

void H2Session::consumed(size_t n) {
  connection_.now = connection_.wire.now();
  sender_.consumed(n);
  if (!connection_.dead && !stash_.empty()) digest_stash();
  streams_.settle();
  if (connection_.dead) return;
  // There may be more: what waited for room in the output, or answers to the stash.
  if (sender_.wants_write()) connection_.wire.output_ready();
}

void H2Session::drain(Drain step) {
  if (connection_.dead) return;
  const bool refuses = step == Drain::kRefuse, known = connection_.goaway_sent || connection_.goaway_received;
  if (connection_.terminated || (!refuses && known)) return;
  connection_.send_goaway(refuses ? connection_.last_taken : kLastOfAll, NGHTTP2_NO_ERROR);
  connection_.goaway_sent = connection_.goaway_sent || refuses;
}

void H2Session::tick(base::Time now) {
  connection_.now = now;
  connection_.inflating = {.turn = now};
  helped_ = base::kNever;
  if (connection_.dead) {
    if (connection_.is_open && now - dead_at_ >= kLastFlush) sender_.drop_output();
    return streams_.settle();
  }
  check_connection();
  bodies_.check_pace();
  for (size_t i = 0; i < streams_.live().size(); ++i) {
    H2Exchange& x = *streams_.live()[i];
    sender_.check_unread(x);
    if (!x.over && bodies_.check(x)) sender_.check(x);
  }
  if (connection_.guard.verdict()) {
    die();
    connection_.wire.output_ready();
  }
  streams_.settle();
}

void H2Session::check_connection() {
  connection_.guard.check(connection_.now);
  if (inside_since_ != base::kNever && connection_.now - inside_since_ >= connection_.limits.head)
    connection_.condemn(reason::kSlowHeader, H2Error::kEnhanceYourCalm, "frame too slow");
  if (connection_.memory) connection_.memory->update_overload();
  if (!connection_.resting) fit_window();  // one that rests gets its window once it is used
  if (sender_.check_shared()) {
    die();
    sender_.drop_output();  // nobody reads the GOAWAY either
  }
  drain_if_due();
  check_idle();
}

// A connection without requests gives memory back, and ends after a while.
void H2Session::check_idle() {
  if (!streams_.live().empty() || !stash_.empty() || connection_.dead) return;
  receiver_.drop();
  connection_.blocks.drop(streams_.heads());
  streams_.drop_spares();
  sender_.shrink();
  connection_.open.shrink();
  if (connection_.frames.output.empty()) {
    connection_.fields.rest();
    connection_.resting = true;
  }
  base::Duration most = connection_.limits.idle;
  const bool leaves = connection_.leaves_at != base::kNever;
  if (leaves || connection_.overloaded(base::Overload::kClose)) most = std::min(most, kH2ShortIdle);
  if (connection_.now - streams_.idle_since() < most) return;
  if (std::exchange(connection_.terminated, true)) return;
  connection_.send_goaway(connection_.last_taken, NGHTTP2_NO_ERROR);
}

// The window of a connection: smaller where memory is short, so that input does not arrive faster than it is processed.
void H2Session::fit_window() {
  constexpr auto kLeast = uint32_t(kH2FirstWindow), kMost = uint32_t(kH2LargestWindow);
  uint32_t window = kLeast;
  if (!connection_.overloaded(base::Overload::kShrink))
    window = std::clamp(connection_.limits.conn_window, kLeast, kMost);
  if (window != std::exchange(window_, window)) connection_.widen(0, connection_.receive.resize(window));
}

// Where memory is short a busy connection is told to go, as it is in a drain, and ends with its last answer. A young
// one stays: its client would come again at once. So is one whose time has come, but some clients (Python's h2) end all
// of their streams at a GOAWAY: those that were there when a body was reset may go on for a while.
void H2Session::drain_if_due() {
  if (connection_.dead || own_drain_ == Drain::kRefuse) return;
  const bool old = connection_.now - opened_ >= connection_.limits.grace && !streams_.live().empty();
  const auto old_stream = [this](const auto& x) { return x->stream() <= connection_.leaves_behind; };
  const bool goes = connection_.now >= connection_.leaves_at &&
                    (connection_.now - connection_.leaves_at >= kLastStreams ||
                     std::none_of(streams_.live().begin(), streams_.live().end(), old_stream));
  if (!own_drain_ && !goes && !(old && connection_.overloaded(base::Overload::kClose))) return;
  own_drain_ = own_drain_ ? Drain::kRefuse : Drain::kAnnounce;
  drain(*own_drain_);
}

std::unique_ptr<Codec> make_h2(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<H2Session>(env, wire, peer);
}

}  // namespace weir::wire
