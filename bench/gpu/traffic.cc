#include "traffic.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <deque>
#include <memory>

namespace weir::load {
namespace {

constexpr const char* kStream = "/inference.GRPCInferenceService/ModelStreamInfer";
constexpr uint64_t kTimer = UINT64_MAX;
constexpr int kTurnMs = 50;  // how often the limit is looked at

double milliseconds(Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); }

class Traffic final : private Hearer {
 public:
  Traffic(const Plan& plan, Work& work)
      : plan_(plan), work_(work), random_(plan.seed), wait_(plan.rate > 0 ? plan.rate : 1) {
    conns_.resize(plan.connections);
    if (plan.rate > 0)  // a server closes connections that never ask: each is made for its first request
      watch(timer_, EPOLLIN, kTimer);
    else
      for (uint32_t i = 0; i < plan.connections; ++i) connect(i);
  }
  ~Traffic() { ::close(timer_), ::close(poll_); }

  LoadResults run();

 private:
  struct Job {
    Clock::time_point due, last;
    uint32_t conn = 0;
    Reply reply;
  };

  void watch(int fd, uint32_t events, uint64_t data) {
    epoll_event event{};
    event.events = events, event.data.u64 = data;
    if (::epoll_ctl(poll_, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl");
  }
  void connect(uint32_t conn);
  void fill();
  void arrive();
  void set_timer();
  bool send(Clock::time_point due);
  void turn();
  void on_body(uint32_t job, std::string_view piece) override;
  void on_end(uint32_t job, End end) override;
  void complain(const Job& job);

  const Plan& plan_;
  Work& work_;
  std::mt19937_64 random_;
  std::exponential_distribution<double> wait_;
  const int poll_ = ::epoll_create1(EPOLL_CLOEXEC),
            timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  std::vector<std::unique_ptr<Conn>> conns_;
  std::vector<uint32_t> free_;  // connections, once for each request that they have room for
  std::vector<Job> jobs_;
  std::vector<uint32_t> spare_;        // of jobs_
  std::deque<Clock::time_point> due_;  // requests for which no connection was free
  uint64_t begun_ = 0;                 // or due
  Clock::time_point now_, next_;       // next_: when the next request is due
  LoadResults results_;
};

// A monotonic clock's, so that its time is the timer's.
static_assert(Clock::is_steady);

void Traffic::set_timer() {
  auto since = next_.time_since_epoch();
  auto seconds = std::chrono::duration_cast<std::chrono::seconds>(since);
  itimerspec at{};
  at.it_value.tv_sec = time_t(seconds.count());
  at.it_value.tv_nsec = long(std::chrono::nanoseconds(since - seconds).count());
  ::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &at, nullptr);
}

bool Traffic::send(Clock::time_point due) {
  if (free_.empty()) return false;
  uint32_t conn = free_.back();
  free_.pop_back();
  if (!conns_[conn]) connect(conn);
  if (spare_.empty()) {
    spare_.push_back(uint32_t(jobs_.size()));
    jobs_.emplace_back();
  }
  uint32_t job = spare_.back();
  spare_.pop_back();
  jobs_[job] = {due, due, conn, {}};
  auto request = work_.next();
  results_.bytes += request.head.size() + request.body.size();
  conns_[conn]->send(job, std::move(request));
  return true;
}

void Traffic::connect(uint32_t conn) {
  const RequestSpec& spec = work_.spec();
  conns_[conn] = !spec.is_grpc()     ? make_h1(plan_.port, *this)
                 : spec.path.empty() ? make_grpc(plan_.port, *this, kStream)
                                     : make_grpc(plan_.port, *this, spec.path);
  watch(conns_[conn]->fd(), EPOLLIN | EPOLLOUT | EPOLLET, conn);
}

// All at once: as many as there is room for.
void Traffic::fill() {
  while (begun_ < plan_.requests && send(now_)) ++begun_;
}

void Traffic::arrive() {
  while (begun_ < plan_.requests && next_ <= now_) {
    due_.push_back(next_);
    ++begun_;
    next_ += std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(wait_(random_)));
  }
  if (begun_ < plan_.requests) set_timer();
  while (!due_.empty() && send(due_.front())) due_.pop_front();
}

void Traffic::on_body(uint32_t index, std::string_view piece) {
  Job& job = jobs_[index];
  uint32_t before = job.reply.tokens(), fresh = job.reply.take(work_.spec(), piece);
  if (fresh == 0) return;
  if (before == 0)
    results_.first.push_back(milliseconds(now_ - job.due));
  else
    results_.gaps.push_back(milliseconds(now_ - job.last));
  results_.gaps.insert(results_.gaps.end(), fresh - 1, 0.0);  // in one read with the one before
  job.last = now_;
  results_.tokens += fresh;
}

void Traffic::on_end(uint32_t index, End end) {
  Job& job = jobs_[index];
  const RequestSpec& spec = work_.spec();
  bool whole = spec.streams_tokens() ? job.reply.tokens() == spec.tokens : job.reply.bytes() > 0;
  if (end == End::kGood && whole && !job.reply.refused())
    ++results_.done;
  else
    complain(job);
  results_.whole.push_back(milliseconds(now_ - job.due));
  free_.push_back(job.conn);
  spare_.push_back(index);
  if (plan_.rate == 0)
    fill();
  else if (!due_.empty() && send(due_.front()))
    due_.pop_front();
}

void Traffic::complain(const Job& job) {
  if (results_.failed++ == 0)
    std::fprintf(stderr, "gpu_load: an answer of %u tokens and %llu bytes is not what was asked for: %s\n",
                 job.reply.tokens(), static_cast<unsigned long long>(job.reply.bytes()), job.reply.begin().c_str());
}

void Traffic::turn() {
  std::array<epoll_event, 256> events;
  int n = ::epoll_wait(poll_, events.data(), int(events.size()), kTurnMs);
  now_ = Clock::now();
  for (int i = 0; i < n; ++i) {
    if (events[size_t(i)].data.u64 == kTimer) {
      uint64_t times;
      if (::read(timer_, &times, sizeof times) < 0) continue;
      arrive();
      continue;
    }
    now_ = Clock::now();
    Conn& conn = *conns_[events[size_t(i)].data.u64];
    if (events[size_t(i)].events & EPOLLOUT) conn.write();
    if (events[size_t(i)].events & ~uint32_t(EPOLLOUT)) conn.read();
  }
}

LoadResults Traffic::run() {
  for (uint32_t s = 0; s < plan_.streams; ++s)
    for (uint32_t i = 0; i < conns_.size(); ++i) free_.push_back(uint32_t(conns_.size()) - 1 - i);
  now_ = next_ = results_.began = Clock::now();
  const auto limit = now_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(plan_.limit));
  if (plan_.rate > 0)
    arrive();
  else
    fill();
  while (results_.done + results_.failed < plan_.requests && !results_.cut) {
    turn();
    results_.cut = now_ >= limit;
  }
  results_.ended = now_;
  return std::move(results_);
}

}  // namespace

void LoadResults::add(LoadResults&& other) {
  for (auto list : {&LoadResults::first, &LoadResults::gaps, &LoadResults::whole})
    (this->*list).insert((this->*list).end(), (other.*list).begin(), (other.*list).end());
  done += other.done, failed += other.failed, tokens += other.tokens, bytes += other.bytes;
  cut = cut || other.cut;
  began = std::min(began, other.began), ended = std::max(ended, other.ended);
}

LoadResults run(const Plan& plan, Work& work, const std::function<void()>& start) {
  Traffic traffic(plan, work);
  start();
  return traffic.run();
}

}  // namespace weir::load
