#include "app/tools/bench_loop.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <ctime>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <utility>

#include "app/tools/bench_answer.h"
#include "app/tools/bench_session.h"
#include "net/shard.h"

namespace weir::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSweep = std::chrono::milliseconds(100);        // between two looks for what takes too long
constexpr auto kAfterFailure = std::chrono::milliseconds(50);  // before a connection that failed is tried again

std::atomic<bool> interrupted{false};

double in_seconds(base::Duration d) { return std::chrono::duration<double>(d).count(); }
base::Duration to_duration(double seconds) {
  return std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(seconds));
}

double thread_seconds() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return double(used.tv_sec) + double(used.tv_nsec) * 1e-9;
}

// One thread's part of a plan. Everything happens on its shard.
class BenchLoop final : private net::ClientConn::Owner {
 public:
  BenchLoop(net::Shard& shard, const BenchPlan& plan, uint32_t part, Clock::time_point begun);

  void begin(std::function<void()> done);
  void close();
  BenchRun take() { return std::move(run_); }

 private:
  // A client: at most one request at a time.
  struct Flight final : wire::ClientAnswer {
    enum class State : uint8_t { kFree, kWaiting, kSent };
    Flight(BenchLoop& its_loop, size_t its_link, BenchProtocol protocol)
        : loop(its_loop), link(its_link), answer(make_bench_answer(protocol)) {}

    void on_head(int status, const wire::Fields& fields) override;
    size_t on_body(std::span<const std::byte> piece) override;
    void on_end(const wire::Fields& trailers) override { loop.finish(*this, answer->end(trailers)); }
    void on_failed(const base::Status& why) override { loop.finish(*this, why.text); }

    BenchLoop& loop;
    const size_t link;
    const std::unique_ptr<BenchAnswer> answer;
    State state = State::kFree;
    const BenchRequest* request = nullptr;
    size_t call = 0;      // of the request's
    std::string session;  // that its first call has opened
    std::string wrong;    // what its first failure was
    BenchSample sample;
    double asked = 0, last_token = 0;
    std::vector<float> gaps;
  };
  struct Link {
    std::unique_ptr<net::ClientConn> conn;
    bool opened = false;
    std::deque<Flight*> waiting;
  };

  double now() const { return in_seconds(Clock::now() - begun_); }
  bool is_open_loop() const { return plan_.rate > 0; }
  double due(uint64_t n) const { return due_at(n, plan_.rate, part_, plan_.threads); }
  bool more() const { return sent_ < most_ && (is_open_loop() ? due(sent_) < end_ : now() < end_); }

  void start_due();
  void start(Flight& flight, double due);
  void pump(Link& link);
  void finish(Flight& flight, const std::string& error);
  bool go_on(Flight& flight);
  void next(Flight& flight, bool failed);
  void keep(Flight& flight);
  void sweep();
  void give_up();
  void look_whether_done();

  void on_open(net::ClientConn& conn) override { pump(link_of(conn)); }
  void on_closed(net::ClientConn& conn, const base::Status& why) override;
  Link& link_of(net::ClientConn& conn);

  net::Shard& shard_;
  const BenchPlan& plan_;
  const uint32_t part_;
  const Clock::time_point begun_;
  const uint64_t most_;
  double end_;
  std::deque<Link> links_;
  std::deque<Flight> flights_;
  std::vector<Flight*> free_;
  uint64_t sent_ = 0;     // requests that have been started; in an open loop also the next one's number
  uint64_t pending_ = 0;  // of them those that have not ended
  size_t turn_ = 0;       // of the requests
  base::TimerId alarm_ = base::TimerId::kNone, sweeper_ = base::TimerId::kNone;
  std::function<void()> done_;
  double cpu_ = 0, last_end_ = 0;
  BenchRun run_;
};

void BenchLoop::Flight::on_head(int status, const wire::Fields& fields) { answer->head(status, fields); }

size_t BenchLoop::Flight::on_body(std::span<const std::byte> piece) {
  const uint32_t tokens = answer->body({reinterpret_cast<const char*>(piece.data()), piece.size()});
  if (sample.first == 0 && (tokens > 0 || sample.tokens == 0)) sample.first = loop.now();
  if (tokens == 0) return piece.size();
  // Tokens that come together have no time between them.
  const double at = loop.now();
  if (sample.tokens == 0) sample.first = at;
  for (uint32_t i = 0; i < tokens; ++i) {
    if (sample.tokens + i > 0) gaps.push_back(i == 0 ? float(at - last_token) : 0.0f);
  }
  sample.tokens += tokens;
  last_token = at;
  return piece.size();
}

BenchLoop::BenchLoop(net::Shard& shard, const BenchPlan& plan, uint32_t part, Clock::time_point begun)
    : shard_(shard),
      plan_(plan),
      part_(part),
      begun_(begun),
      most_(plan.most == 0 ? UINT64_MAX : share_of_part(plan.most, part, plan.threads)),
      end_(in_seconds(plan.warmup + plan.duration)) {
  const auto clients = std::max<uint64_t>(share_of_part(plan.clients, part, plan.threads), 1);
  const auto connections =
      over_http2(plan.protocol) ? std::max<uint64_t>(share_of_part(plan.connections, part, plan.threads), 1) : clients;
  links_.resize(std::min(connections, clients));
  for (uint64_t i = 0; i < clients; ++i) {
    Flight& flight = flights_.emplace_back(*this, size_t(i) % links_.size(), plan.protocol);
    free_.push_back(&flight);
  }
  std::reverse(free_.begin(), free_.end());  // the first one is taken first
}

void BenchLoop::begin(std::function<void()> done) {
  done_ = std::move(done);
  cpu_ = thread_seconds();
  sweep();
  if (is_open_loop()) return start_due();
  for (auto* flight : std::exchange(free_, {})) next(*flight, false);
}

// --- when ------------------------------------------------------------------------------------------------------------

// Starts what is due, as far as clients are free, and looks again when the next one is.
void BenchLoop::start_due() {
  while (!free_.empty() && more() && due(sent_) <= now()) {
    Flight* flight = free_.back();
    free_.pop_back();
    start(*flight, due(sent_));
  }
  shard_.env().cancel(std::exchange(alarm_, base::TimerId::kNone));
  if (!free_.empty() && more())
    alarm_ = shard_.env().at(begun_ + to_duration(due(sent_)), [this] {
      alarm_ = base::TimerId::kNone;
      start_due();
    });
  look_whether_done();
}

void BenchLoop::next(Flight& flight, bool failed) {
  if (is_open_loop()) {
    free_.push_back(&flight);
    return start_due();
  }
  if (!more()) {
    free_.push_back(&flight);
    return look_whether_done();
  }
  if (!failed) return start(flight, now());
  ++pending_;  // so that it is not done meanwhile
  shard_.env().at(shard_.env().now() + kAfterFailure, [this, &flight] {
    --pending_;
    next(flight, false);
  });
}

// Requests that take too long; an interrupt; the end.
void BenchLoop::sweep() {
  if (interrupted) end_ = std::min(end_, now());
  const double too_old = now() - in_seconds(plan_.timeout);
  for (auto& flight : flights_) {
    if (flight.state == Flight::State::kFree || flight.asked > too_old) continue;
    Link& link = links_[flight.link];
    if (flight.state == Flight::State::kSent && link.conn) link.conn->cancel(flight);
    std::erase(link.waiting, &flight);
    finish(flight, "no answer in time");
  }
  if (now() > end_ + in_seconds(plan_.timeout) && is_open_loop()) give_up();
  look_whether_done();
  if (done_) sweeper_ = shard_.env().at(shard_.env().now() + kSweep, [this] { sweep(); });
}

// Requests that were due and could not be sent have failed.
void BenchLoop::give_up() {
  for (; more(); ++sent_) {
    BenchSample sample{due(sent_), now(), now(), now(), 0, 0};
    sample.error = run_.number_of("never sent: all clients were waiting for answers (--concurrency)");
    if (sample.due >= in_seconds(plan_.warmup)) run_.samples.push_back(sample);
  }
}

void BenchLoop::look_whether_done() {
  if (!done_ || pending_ > 0 || more()) return;
  run_.busy = (thread_seconds() - cpu_) / std::max(now(), 1e-9);
  run_.seconds = last_end_ - in_seconds(plan_.warmup);
  run_.loop = is_open_loop() ? BenchRun::Loop::kOpen : BenchRun::Loop::kClosed;
  std::exchange(done_, nullptr)();
}

// --- how -------------------------------------------------------------------------------------------------------------

void BenchLoop::start(Flight& flight, double due) {
  ++sent_, ++pending_;
  flight.state = Flight::State::kWaiting;
  flight.request = &plan_.requests[turn_++ % plan_.requests.size()];
  flight.call = 0;
  flight.session.clear(), flight.wrong.clear();
  flight.sample = {};
  flight.sample.due = due;
  flight.asked = now();
  flight.gaps.clear();
  Link& link = links_[flight.link];
  link.waiting.push_back(&flight);
  pump(link);
}

void BenchLoop::pump(Link& link) {
  if (!link.conn && !link.waiting.empty()) {
    link.opened = false;
    net::ClientConn::Owner& self = *this;
    link.conn = std::make_unique<net::ClientConn>(shard_, plan_.connection, self);
  }
  if (link.conn && link.conn->has_room()) link.opened = true;
  while (link.conn && !link.waiting.empty() && link.conn->has_room()) {
    Flight& flight = *link.waiting.front();
    link.waiting.pop_front();
    flight.state = Flight::State::kSent;
    flight.answer->begin(flight.call);
    if (flight.call == 0) flight.sample.started = now();
    const wire::ClientRequest& call = flight.request->calls[flight.call];
    link.conn->send(flight.call == 0 ? call : in_session(call, flight.session), flight);
  }
}

void BenchLoop::finish(Flight& flight, const std::string& error) {
  if (flight.wrong.empty()) flight.wrong = error;
  if (go_on(flight)) return;
  const bool failed = flight.sample.started == 0 || (!flight.wrong.empty() && flight.sample.first == 0);
  keep(flight);
  flight.state = Flight::State::kFree;
  --pending_;
  const size_t link = flight.link;
  next(flight, failed);
  pump(links_[link]);  // of HTTP/2: others may wait for room
}

// Sends the next call of a request that has several; after a failure the last one, which closes what the first one has
// opened. False: there is none.
bool BenchLoop::go_on(Flight& flight) {
  if (flight.call == 0 && flight.sample.started != 0) flight.session = flight.answer->session();
  const size_t last = flight.request->calls.size() - 1;
  if (flight.call == last || flight.session.empty()) return false;
  flight.call = flight.wrong.empty() ? flight.call + 1 : last;
  flight.state = Flight::State::kWaiting;
  flight.asked = now();
  Link& link = links_[flight.link];
  link.waiting.push_front(&flight);
  pump(link);
  return true;
}

// Those that were due while it warmed up are left out.
void BenchLoop::keep(Flight& flight) {
  BenchSample& sample = flight.sample;
  sample.ended = last_end_ = now();
  if (sample.started == 0) sample.started = sample.ended;
  if (sample.first == 0) sample.first = sample.ended;
  if (sample.due < in_seconds(plan_.warmup)) return;
  if (!flight.wrong.empty()) sample.error = run_.number_of(flight.wrong);
  run_.samples.push_back(sample);
  run_.token_gaps.insert(run_.token_gaps.end(), flight.gaps.begin(), flight.gaps.end());
}

BenchLoop::Link& BenchLoop::link_of(net::ClientConn& conn) {
  return *std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.conn.get() == &conn; });
}

// A connection that has never been one fails who waits for it; after another a new one is made.
void BenchLoop::on_closed(net::ClientConn& conn, const base::Status& why) {
  Link& link = link_of(conn);
  link.conn.reset();
  if (!link.opened)
    for (auto* flight : std::exchange(link.waiting, {})) finish(*flight, why.text);
  pump(link);
}

void BenchLoop::close() {
  shard_.env().cancel(alarm_);
  shard_.env().cancel(sweeper_);
  for (auto& link : links_) link.conn.reset();
}

// A loop with a thread of its own.
struct BenchThread {
  BenchThread(const BenchPlan& plan, uint32_t part, Clock::time_point begun)
      : shard(base::ShardId(part), net::Pin::kNo), loop(shard, plan, part, begun) {}

  net::Shard shard;
  BenchLoop loop;
  std::promise<void> done, closed;
};

}  // namespace

BenchRun run_bench(const BenchPlan& plan) {
  struct sigaction action {
  }, before{};
  action.sa_handler = [](int) { interrupted = true; };
  action.sa_flags = int(SA_RESETHAND);
  ::sigaction(SIGINT, &action, &before);
  const auto begun = Clock::now();
  std::deque<BenchThread> threads;
  for (uint32_t part = 0; part < plan.threads; ++part) threads.emplace_back(plan, part, begun);
  for (auto& t : threads) {
    t.shard.start();
    t.shard.post([&t] { t.loop.begin([&t] { t.done.set_value(); }); });
  }
  BenchRun run;
  for (auto& t : threads) t.done.get_future().wait();
  for (auto& t : threads) {
    t.shard.post([&t] {
      t.loop.close();
      t.closed.set_value();
    });
    t.closed.get_future().wait();
    t.shard.stop();
    t.shard.join();
    run.merge(t.loop.take());
  }
  ::sigaction(SIGINT, &before, nullptr);
  return run;
}

}  // namespace weir::app
