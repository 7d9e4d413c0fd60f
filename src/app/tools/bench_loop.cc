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
  struct LoadClient final : wire::ClientAnswer {
    enum class State : uint8_t { kFree, kWaiting, kSent };
    LoadClient(BenchLoop& its_loop, size_t its_link, BenchProtocol protocol)
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
    std::deque<LoadClient*> waiting;
  };

  double now() const { return in_seconds(Clock::now() - begun_); }
  bool is_open_loop() const { return plan_.rate > 0; }
  double due(uint64_t n) const { return due_at(n, plan_.rate, part_, plan_.threads); }
  bool more() const { return sent_ < most_ && (is_open_loop() ? due(sent_) < end_ : now() < end_); }

  void start_due();
  void start(LoadClient& client, double due);
  void pump(Link& link);
  void finish(LoadClient& client, const std::string& error);
  bool go_on(LoadClient& client);
  void next(LoadClient& client, bool failed);
  void keep(LoadClient& client);
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
  std::deque<LoadClient> clients_;
  std::vector<LoadClient*> free_;
  uint64_t sent_ = 0;     // requests that have been started; in an open loop also the next one's number
  uint64_t pending_ = 0;  // of them those that have not ended
  size_t turn_ = 0;       // of the requests
  base::TimerId alarm_ = base::TimerId::kNone, sweeper_ = base::TimerId::kNone;
  std::function<void()> done_;
  double cpu_ = 0, last_end_ = 0;
  BenchRun run_;
};

void BenchLoop::LoadClient::on_head(int status, const wire::Fields& fields) { answer->head(status, fields); }

size_t BenchLoop::LoadClient::on_body(std::span<const std::byte> piece) {
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
    LoadClient& client = clients_.emplace_back(*this, size_t(i) % links_.size(), plan.protocol);
    free_.push_back(&client);
  }
  std::reverse(free_.begin(), free_.end());  // the first one is taken first
}

void BenchLoop::begin(std::function<void()> done) {
  done_ = std::move(done);
  cpu_ = thread_seconds();
  sweep();
  if (is_open_loop()) return start_due();
  for (auto* client : std::exchange(free_, {})) next(*client, false);
}

// --- when ------------------------------------------------------------------------------------------------------------

// Starts what is due, as far as clients are free, and looks again when the next one is.
void BenchLoop::start_due() {
  while (!free_.empty() && more() && due(sent_) <= now()) {
    LoadClient* client = free_.back();
    free_.pop_back();
    start(*client, due(sent_));
  }
  shard_.env().cancel(std::exchange(alarm_, base::TimerId::kNone));
  if (!free_.empty() && more())
    alarm_ = shard_.env().at(begun_ + to_duration(due(sent_)), [this] {
      alarm_ = base::TimerId::kNone;
      start_due();
    });
  look_whether_done();
}

void BenchLoop::next(LoadClient& client, bool failed) {
  if (is_open_loop()) {
    free_.push_back(&client);
    return start_due();
  }
  if (!more()) {
    free_.push_back(&client);
    return look_whether_done();
  }
  if (!failed) return start(client, now());
  ++pending_;  // so that it is not done meanwhile
  shard_.env().at(shard_.env().now() + kAfterFailure, [this, &client] {
    --pending_;
    next(client, false);
  });
}

// Requests that take too long; an interrupt; the end.
void BenchLoop::sweep() {
  if (interrupted) end_ = std::min(end_, now());
  const double too_old = now() - in_seconds(plan_.timeout);
  for (auto& client : clients_) {
    if (client.state == LoadClient::State::kFree || client.asked > too_old) continue;
    Link& link = links_[client.link];
    if (client.state == LoadClient::State::kSent && link.conn) link.conn->cancel(client);
    std::erase(link.waiting, &client);
    finish(client, "no answer in time");
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

void BenchLoop::start(LoadClient& client, double due) {
  ++sent_, ++pending_;
  client.state = LoadClient::State::kWaiting;
  client.request = &plan_.requests[turn_++ % plan_.requests.size()];
  client.call = 0;
  client.session.clear(), client.wrong.clear();
  client.sample = {};
  client.sample.due = due;
  client.asked = now();
  client.gaps.clear();
  Link& link = links_[client.link];
  link.waiting.push_back(&client);
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
    LoadClient& client = *link.waiting.front();
    link.waiting.pop_front();
    client.state = LoadClient::State::kSent;
    client.answer->begin(client.call);
    if (client.call == 0) client.sample.started = now();
    const wire::ClientRequest& call = client.request->calls[client.call];
    link.conn->send(client.call == 0 ? call : in_session(call, client.session), client);
  }
}

void BenchLoop::finish(LoadClient& client, const std::string& error) {
  if (client.wrong.empty()) client.wrong = error;
  if (go_on(client)) return;
  const bool failed = client.sample.started == 0 || (!client.wrong.empty() && client.sample.first == 0);
  keep(client);
  client.state = LoadClient::State::kFree;
  --pending_;
  const size_t link = client.link;
  next(client, failed);
  pump(links_[link]);  // of HTTP/2: others may wait for room
}

// Sends the next call of a request that has several; after a failure the last one, which closes what the first one has
// opened. False: there is none.
bool BenchLoop::go_on(LoadClient& client) {
  if (client.call == 0 && client.sample.started != 0) client.session = client.answer->session();
  const size_t last = client.request->calls.size() - 1;
  if (client.call == last || client.session.empty()) return false;
  client.call = client.wrong.empty() ? client.call + 1 : last;
  client.state = LoadClient::State::kWaiting;
  client.asked = now();
  Link& link = links_[client.link];
  link.waiting.push_front(&client);
  pump(link);
  return true;
}

// Those that were due while it warmed up are left out.
void BenchLoop::keep(LoadClient& client) {
  BenchSample& sample = client.sample;
  sample.ended = last_end_ = now();
  if (sample.started == 0) sample.started = sample.ended;
  if (sample.first == 0) sample.first = sample.ended;
  if (sample.due < in_seconds(plan_.warmup)) return;
  if (!client.wrong.empty()) sample.error = run_.number_of(client.wrong);
  run_.samples.push_back(sample);
  run_.token_gaps.insert(run_.token_gaps.end(), client.gaps.begin(), client.gaps.end());
}

BenchLoop::Link& BenchLoop::link_of(net::ClientConn& conn) {
  return *std::find_if(links_.begin(), links_.end(), [&](const Link& link) { return link.conn.get() == &conn; });
}

// A connection that has never been one fails who waits for it; after another a new one is made.
void BenchLoop::on_closed(net::ClientConn& conn, const base::Status& why) {
  Link& link = link_of(conn);
  link.conn.reset();
  if (!link.opened)
    for (auto* client : std::exchange(link.waiting, {})) finish(*client, why.text);
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
