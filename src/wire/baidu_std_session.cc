#include "wire/baidu_std_session.h"

#include <memory>

#include "wire/limits.h"

namespace weir::wire {
namespace {

constexpr base::Duration kQuiet = std::chrono::seconds(2);      // without a request, until spare memory is given back
constexpr base::Duration kShortIdle = std::chrono::seconds(2);  // where memory is short

}  // namespace

void BaiduStdSession::feed(std::span<const std::byte> bytes) {
  connection_.busy = true;
  reader_.new_turn();
  reader_.process({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  connection_.busy = false;
  if (reader_.paused()) connection_.wire.tick_next_turn();
}

void BaiduStdSession::consumed(size_t n) {
  connection_.busy = true;
  const uint64_t before = connection_.output.total();
  connection_.taken(n);
  connection_.small.fit(connection_.output.size());
  calls_.output_taken();
  if (reader_.waiting() > 0) reader_.process({});
  connection_.busy = false;
  settle(before);
}

void BaiduStdSession::settle(uint64_t before) {
  if (connection_.output.total() != before || finished()) connection_.wire.output_ready();
  if (reader_.paused()) connection_.wire.tick_next_turn();
}

// A peer is told by the answers to what it still asks for, and by the end once nothing is under way.
void BaiduStdSession::drain(Drain step) {
  if (step != Drain::kRefuse) return;
  connection_.draining = true;
  if (finished()) connection_.notify_output();
}

void BaiduStdSession::eof() {
  connection_.over = true;
  reader_.drop_input();
  calls_.close_unanswered();
  connection_.notify_output();
}

void BaiduStdSession::closed() {
  connection_.over = true;
  reader_.drop_input();
  connection_.output.clear();
  connection_.small.fit(0);
  calls_.close_all();
}

void BaiduStdSession::tick(base::Time now) {
  connection_.busy = true;
  const uint64_t before = connection_.output.total();
  calls_.abandon_marked();
  reader_.new_turn();
  if (reader_.waiting() > 0) reader_.process({});
  check_output(now);
  reader_.check(now);
  check_idle(now);
  connection_.busy = false;
  settle(before);
}

// A peer that does not take its answers is cut off, whatever it was sent.
void BaiduStdSession::check_output(base::Time now) {
  if (!connection_.takes_too_little(now, calls_.held_for_answers())) return;
  calls_.reject_first(reason::kSlowRead);
  closed();
}

// Its clients have one connection for all their calls, and do not expect that it ends.
void BaiduStdSession::check_idle(base::Time now) {
  const base::Duration quiet = now - connection_.idle_since;
  if (!idle() || quiet <= kQuiet) return;
  connection_.output.trim();
  reader_.release_input();
  connection_.heads.trim();
  const bool scarce = connection_.overloaded(base::Overload::kClose);
  if (quiet > (scarce ? kShortIdle : connection_.env.limits.stream_idle)) connection_.over = true;
}

std::unique_ptr<Codec> make_baidu_std(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<BaiduStdSession>(env, wire, peer);
}

}  // namespace weir::wire
