#include "dialects/ops/span_exporter.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/attempt.h"
#include "base/log.h"

namespace weir::ops {
namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kLastWord = std::chrono::seconds(1);  // for a Post that was cut off

struct SpanBatch {
  std::string spans;
  uint32_t count = 0;
  base::Time since{};  // its first span came
};

}  // namespace

struct SpanExporter::Parts {
  Parts(Post p, ExportRules r, base::Metrics& metrics)
      : post(std::move(p)),
        rules(r),
        exported(counter(metrics, "exported")),
        rejected(counter(metrics, "rejected")),
        dropped(counter(metrics, "dropped")) {}

  static base::Counter& counter(base::Metrics& metrics, const char* outcome) {
    return metrics.counter("weir_spans_total", "Spans of traced requests, by what became of them.",
                           {{"outcome", outcome}});
  }

  void run();
  std::optional<SpanBatch> next(std::unique_lock<std::mutex>& lock);
  void send(SpanBatch batch, std::unique_lock<std::mutex>& lock);
  bool settle(const SpanBatch& batch, const Reply& reply);
  enum class Hurry : uint8_t { kNo, kWhenStopped };
  bool pause(std::unique_lock<std::mutex>& lock, base::Time until, Hurry hurry);
  void drop(const SpanBatch& batch, const std::string& why);

  const Post post;
  const ExportRules rules;
  base::Counter &exported, &rejected, &dropped;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<SpanBatch> waiting;  // under mutex, as the rest
  size_t bytes = 0;               // of waiting
  bool stopping = false, over = false;
  bool left = false;               // nobody waits for the thread: the metrics may have gone
  base::Time last = base::kNever;  // of stopping: no try begins after it
  bool failing = false;            // the log says already that spans are not taken
  uint64_t lost = 0;               // spans, since then
};

void SpanExporter::Parts::run() {
  std::unique_lock lock(mutex);
  while (auto batch = next(lock)) send(std::move(*batch), lock);
  if (left) return;
  for (const auto& batch : waiting) dropped.add(batch.count);
  if (failing) base::log::error("tracing ends with spans lost", {{"spans", lost}});
  over = true;
  changed.notify_all();
}

// The next batch, once it is due: it is full (another one has begun behind it), old enough, or all has to go.
std::optional<SpanBatch> SpanExporter::Parts::next(std::unique_lock<std::mutex>& lock) {
  for (;;) {
    if (left || (stopping && (waiting.empty() || Clock::now() >= last))) return {};
    if (waiting.empty()) {
      changed.wait(lock);
      continue;
    }
    const base::Time due = waiting.front().since + rules.delay;
    const bool full = waiting.size() > 1 || waiting.front().count >= rules.batch_spans;
    if (full || stopping || Clock::now() >= due) break;
    changed.wait_until(lock, due);
  }
  SpanBatch batch = std::move(waiting.front());
  waiting.pop_front();
  return batch;
}

// The batch counts among the waiting bytes until it has been taken or given up.
void SpanExporter::Parts::send(SpanBatch batch, std::unique_lock<std::mutex>& lock) {
  const base::Time end = Clock::now() + rules.give_up;
  base::Duration wait = rules.first_pause;
  for (;;) {
    const bool was_stopping = stopping;
    lock.unlock();
    Reply reply;
    if (auto s = base::attempt("the export of spans", [&] { reply = post(batch.spans); }); !s.ok())
      reply = {Reply::Fate::kTryAgain, base::Duration(-1), 0, s.text};
    lock.lock();
    if (left) return;
    if (settle(batch, reply)) break;
    const bool asked = reply.pause.count() >= 0;
    const base::Time until = Clock::now() + (asked ? reply.pause : wait);
    wait = std::min(2 * wait, rules.longest_pause);
    if (until >= end || !pause(lock, until, asked || was_stopping ? Hurry::kNo : Hurry::kWhenStopped)) {
      if (!left) drop(batch, reply.why);
      break;
    }
  }
  bytes -= batch.spans.size();
}

// Counts and logs what has become of the batch. True: it is not sent again.
bool SpanExporter::Parts::settle(const SpanBatch& batch, const Reply& reply) {
  if (reply.fate == Reply::Fate::kTaken) {
    const uint64_t refused = std::min<uint64_t>(reply.rejected, batch.count);
    exported.add(batch.count - refused);
    rejected.add(refused);
    if (refused > 0)
      base::log::warning("the collector has refused some spans", {{"spans", refused}, {"reason", reply.why}});
    if (failing) base::log::warning("the collector takes spans again", {{"lost_spans", lost}});
    failing = false, lost = 0;
    return true;
  }
  if (!std::exchange(failing, true))
    base::log::warning("the collector does not take spans (tracing.otlp)", {{"reason", reply.why}});
  if (reply.fate == Reply::Fate::kTryAgain) return false;
  drop(batch, reply.why);
  return true;
}

// Waits until `until`. False: it would be after the last time at which spans are sent. stop() ends a pause at once,
// unless the collector has asked for the pause.
bool SpanExporter::Parts::pause(std::unique_lock<std::mutex>& lock, base::Time until, Hurry hurry) {
  for (;;) {
    if (left) return false;
    if (stopping && hurry == Hurry::kWhenStopped) return Clock::now() < last;
    if (stopping && until >= last) return false;
    if (Clock::now() >= until) return true;
    changed.wait_until(lock, until);
  }
}

void SpanExporter::Parts::drop(const SpanBatch& batch, const std::string& why) {
  dropped.add(batch.count);
  lost += batch.count;
  base::log::verbose("spans are dropped", {{"spans", batch.count}, {"reason", why}});
}

SpanExporter::SpanExporter(Post post, ExportRules rules, base::Metrics& metrics)
    : parts_(std::make_shared<Parts>(std::move(post), rules, metrics)) {
  std::thread([parts = parts_] { parts->run(); }).detach();
}

SpanExporter::~SpanExporter() {
  stop({}, [] {});
}

void SpanExporter::put(std::string& spans, uint32_t count) {
  Parts& p = *parts_;
  {
    std::lock_guard lock(p.mutex);
    if (p.stopping || p.bytes + spans.size() > p.rules.most_waiting) {
      p.dropped.add(count);
      p.lost += p.failing ? count : 0;
    } else {
      p.bytes += spans.size();
      SpanBatch* last = p.waiting.empty() ? nullptr : &p.waiting.back();
      const bool fits = last && last->count + count <= p.rules.batch_spans &&
                        last->spans.size() + spans.size() <= p.rules.batch_bytes;
      if (fits) {
        last->spans += spans, last->count += count;
        if (last->count >= p.rules.batch_spans) p.changed.notify_all();
      } else {
        p.waiting.push_back({std::move(spans), count, Clock::now()});
        p.changed.notify_all();
      }
    }
  }
  spans.clear();
}

void SpanExporter::lost(uint32_t count) { parts_->dropped.add(count); }

void SpanExporter::stop(base::Duration most, const std::function<void()>& cut_off) {
  Parts& p = *parts_;
  std::unique_lock lock(p.mutex);
  if (p.over || p.left) return;
  p.stopping = true;
  p.last = Clock::now() + most;
  p.changed.notify_all();
  auto over = [&p] { return p.over; };
  if (p.changed.wait_until(lock, p.last, over)) return;
  lock.unlock();
  cut_off();
  lock.lock();
  if (!p.changed.wait_for(lock, kLastWord, over)) p.left = true;
}

}  // namespace weir::ops
