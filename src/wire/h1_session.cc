#include "wire/h1_session.h"

#include <utility>

namespace weir::wire {
namespace {

constexpr base::Duration kQuiet = std::chrono::seconds(2);  // without a request, until spare memory is given back

std::string_view view(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

H1Session::H1Session(const CodecEnv& env, Wire& wire, const PeerInfo& peer)
    : connection_(env, wire, peer), reader_(connection_, queue_), queue_(connection_, reader_) {}

void H1Session::feed(std::span<const std::byte> bytes) {
  connection_.busy = true;
  reader_.process(view(bytes));
  connection_.busy = false;
  go_on_if_paused();
}

void H1Session::eof() {
  connection_.busy = true;
  reader_.close_now();
  reader_.drop_input();
  queue_.close_unanswered();
  connection_.busy = false;
  connection_.notify_output();
}

void H1Session::closed() {
  connection_.busy = true;
  reader_.close_now();
  queue_.close_from(0);
  connection_.output.clear();
  reader_.drop_input();
  connection_.busy = false;
}

void H1Session::consumed(size_t n) {
  connection_.busy = true;
  uint64_t before = connection_.output.total();
  connection_.taken(n);
  queue_.output_taken();
  if (reader_.waiting() > 0) reader_.process({});
  connection_.busy = false;
  note_output(before);
}

void H1Session::note_output(uint64_t before) {
  if (connection_.output.total() != before || finished()) connection_.wire.output_ready();
  go_on_if_paused();
}

void H1Session::go_on_if_paused() {
  if (reader_.paused()) connection_.wire.tick_next_turn();
}

void H1Session::tick(base::Time now) {
  connection_.busy = true;
  uint64_t before = connection_.output.total();
  reader_.retry_body();
  if (reader_.waiting() > 0) reader_.process({});
  check_output(now);
  if (!connection_.closing) reader_.check(now);
  check_idle(now);
  connection_.busy = false;
  note_output(before);
}

void H1Session::check_idle(base::Time now) {
  if (!quiet() || now - connection_.idle_since <= kQuiet) return;
  connection_.output.trim();
  queue_.drop_spares();
  reader_.release_input();
  connection_.heads.trim();
}

// A peer that does not take its answers is cut off, whatever it was sent.
void H1Session::check_output(base::Time now) {
  if (!connection_.takes_too_little(now, queue_.held_for_answers())) return;
  if (!queue_.empty()) queue_.front().record().reject = reason::kSlowRead;
  connection_.output.clear();
  reader_.close_now();
}

void H1Session::drain(Drain step) {
  connection_.draining = true;
  if (step == Drain::kAnnounce) return;
  reader_.refuse_new_requests();
  connection_.notify_output();
}

std::unique_ptr<Codec> make_h1(const CodecEnv& env, Wire& wire, const PeerInfo& peer) {
  return std::make_unique<H1Session>(env, wire, peer);
}

}  // namespace weir::wire
