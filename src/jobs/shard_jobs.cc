#include "jobs/shard_jobs.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "base/encoding.h"
#include "base/overload.h"

namespace weir::jobs {
namespace {

constexpr uint32_t kMostAttempts = 5;  // processes that may die while one job runs: it may be the cause
constexpr base::Duration kRefusedWait = std::chrono::seconds(2), kLongestWait = std::chrono::seconds(60);
constexpr int kNoSuchModel = 404, kTooManyRequests = 429, kUnavailable = 503;

bool refused_for_now(const Outcome& outcome) {
  return outcome.status == kTooManyRequests || outcome.status == kUnavailable;
}

// Seconds of Retry-After, within bounds.
base::Duration wait_of(const Outcome& outcome) {
  wire::Fields fields;
  append_fields(outcome.fields, fields);
  const std::string_view text = fields.find("retry-after");
  int64_t seconds = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || text.empty()) return kRefusedWait;
  return std::clamp<base::Duration>(std::chrono::seconds(seconds), kRefusedWait, kLongestWait);
}

struct Quota {
  const std::string& owner;
  uint64_t most = 0;  // bytes
};

// The answer takes the place of the request: one that is no longer always finds room, however much its tenant has.
base::Status finish_within(Storage& s, const JobId& id, const Outcome& outcome, const Quota& quota) {
  return s.atomically([&] {
    auto before = s.files.use(quota.owner);
    if (!before) return before.error();
    auto first = s.journal.finish(id, outcome);
    if (!first) return first.error();
    auto after = s.files.use(quota.owner);
    if (!after) return after.error();
    return after->bytes > std::max(quota.most, before->bytes) ? quota_is_used_up() : base::Status();
  });
}

base::Status write_outcome(Storage& s, const JobId& id, const Outcome& outcome, const Quota& quota,
                           const ShardJobs::Shorten& shorten) {
  base::Status written = finish_within(s, id, outcome, quota);
  if (written.code == base::Code::kResourceExhausted && shorten) {
    Outcome shorter = outcome;
    shorten(shorter);
    if (shorter.body.size() < outcome.body.size()) written = finish_within(s, id, shorter, quota);
  }
  if (written.code != base::Code::kResourceExhausted) return written;
  // Without room for the answer there is still room for its place.
  auto placed = s.journal.finish(id, {507, "", ""});
  return placed ? base::Status() : placed.error();
}

}  // namespace

base::Status quota_is_used_up() {
  return base::failure(base::Code::kResourceExhausted,
                       "your files and jobs have as much of the disk as they may (jobs.tenant_disk): delete some");
}

base::Status journal_is_late() {
  return base::try_again(base::Code::kUnavailable,
                         "the journal has not answered in time: the disk of jobs.path, or the NATS server of the "
                         "cluster, is slow or stands; try again later");
}

struct ShardJobs::Running {
  explicit Running(Callers* c) : callers(c) {}
  Running(const Running&) = delete;
  // Callers knows the peer by its address, which another one may have next.
  ~Running() {
    exchange.reset();
    if (callers) callers->come_as(peer, nullptr, Requests::kOneMore);
  }
  Callers* const callers;
  Job job;
  wire::PeerInfo peer;
  std::unique_ptr<BackgroundExchange> exchange;
};

struct ShardJobs::RunningAside {
  RunningAside(base::Env& e, Aside a) : env(e), asked(std::move(a)) {}
  RunningAside(const RunningAside&) = delete;
  ~RunningAside() { env.cancel(timer); }
  base::Env& env;
  Aside asked;
  base::MemoryCharge charge;         // for the body, which is put again where it was refused
  std::unique_ptr<Running> running;  // null: it waits
  base::TimerId timer = base::TimerId::kNone;
};

using KeptJob = std::pair<Job, base::MemoryCharge>;

ShardJobs::ShardJobs(Store& store, Surroundings surroundings)
    : store_(store), around_(std::move(surroundings)), alive_(std::make_shared<ShardJobs*>(this)) {
  // A weak reference is all that the store's thread has; it is followed on the shard alone.
  auto here = [this, weak = std::weak_ptr(alive_)](auto use) {
    around_.post([weak, use = std::move(use)]() mutable {
      if (auto self = weak.lock()) use(**self);
    });
  };
  store_.attach(around_.id,
                {[here](Job job) {
                   here([job = std::make_shared<Job>(std::move(job))](ShardJobs& self) { self.take(std::move(*job)); });
                 },
                 [here](const std::string& batch) { here([batch](ShardJobs& self) { self.cancel_here(batch); }); }});
}

ShardJobs::~ShardJobs() = default;

Requester ShardJobs::requester_of(const wire::Request& request) const {
  Requester out;
  out.host = request.peer ? std::string(request.peer->host()) : std::string();
  if (around_.callers) out.caller = around_.callers->remember(request);
  const bool known = request.identity && request.identity->tenant_number != 0;
  if (known)
    out.owner = "tenant:" + request.identity->tenant;
  else
    out.owner = around_.hosts == Surroundings::Hosts::kTogether ? "anybody" : "host:" + out.host;
  return out;
}

std::string ShardJobs::new_id(std::string_view prefix) {
  const uint64_t random[2] = {around_.env.random(), around_.env.random()};
  return std::string(prefix) + base::hex({reinterpret_cast<const char*>(random), sizeof random});
}

void ShardJobs::start() {
  if (!available().ok() || draining_) return;
  const uint32_t all = std::max(limits().concurrency, 1u);
  const uint32_t own = all / around_.shards + (uint32_t(around_.id) < all % around_.shards ? 1 : 0);
  if (own > 0) store_.want(around_.id, own);
}

void ShardJobs::drain() {
  draining_ = true;
  for (auto& [key, running] : running_) let_go(running->job.id, base::Duration(0));
  auto gone = std::exchange(running_, {});
  if (available().ok()) put_off_asides();
}

void ShardJobs::put_off_asides() {
  for (auto next = aside_.begin(); next != aside_.end();) {
    const auto at = next++;
    const Aside& asked = at->second->asked;
    if (!asked.put_off || !asked.again()) continue;
    PutOff how = asked.put_off();
    const auto over = aside_.extract(at);
    RunningAside& one = *over.mapped();
    // It keeps its charge until it is written; the rest ends here, on the shard.
    const auto kept = std::make_shared<KeptJob>(std::move(one.asked.job), std::move(one.charge));
    kept->first.fields = std::move(how.fields);
    store_.write([write = std::move(how.write), kept](Storage& s) { return write(s, kept->first); },
                 [then = std::move(how.then)](const base::Status& written) {
                   if (written.ok()) then();
                 });
  }
}

void ShardJobs::end() {
  drain();
  while (!aside_.empty()) {
    auto over = aside_.extract(aside_.begin());
    over.mapped()->running = nullptr;
    over.mapped()->asked.done({});
  }
}

void ShardJobs::let_go(const JobId& id, base::Duration later) {
  store_.write([id, when = wall() + later](Storage& s) { return s.journal.release(id, when); });
}

void ShardJobs::run(Job job) {
  const bool short_of_memory = around_.memory && around_.memory->at_least(base::Overload::kShrink);
  if (draining_ || short_of_memory) {
    let_go(job.id, kRefusedWait);
    if (!draining_) store_.want(around_.id, 1);
    return;
  }
  const std::string key = key_of(job.id);
  auto running = std::make_unique<Running>(around_.callers);
  Running& r = *running;
  r.job = std::move(job);
  running_[key] = std::move(running);
  if (r.job.attempts >= kMostAttempts)
    return ended(
        key,
        {500, "content-type: application/json\n",
         R"({"error":{"message":"the server ended while it ran this request, several times","type":"server_error","param":null,"code":null}})"});
  std::optional<Outcome> outcome;
  const auto kind = kinds_.find(r.job.kind);
  if (kind != kinds_.end()) (void)base::attempt("a job", [&] { outcome = kind->second.change(r.job); });
  if (outcome) return ended(key, *std::move(outcome));
  start_exchange(r, kind == kinds_.end() ? Requests::kOneMore : kind->second.requests,
                 [this, key](Outcome outcome) { ended(key, std::move(outcome)); });
}

void ShardJobs::start_exchange(Running& r, Requests requests, BackgroundExchange::Done done) {
  const std::string& host = r.job.requester.host;
  r.peer.address = host == "unix" ? host : host + ":0";
  r.peer.admin = wire::AdminMethods::kElsewhere;
  if (around_.callers) around_.callers->come_as(r.peer, &r.job.requester.caller, requests);
  r.exchange = std::make_unique<BackgroundExchange>(
      BackgroundExchange::Surroundings{around_.env, around_.intake, around_.memory, limits().max_result}, r.peer, r.job,
      std::move(done));
  r.exchange->start();
}

std::function<void()> ShardJobs::run_aside(Aside aside) {
  if (draining_) return nullptr;
  auto one = std::make_unique<RunningAside>(around_.env, std::move(aside));
  if (around_.memory) one->charge = {*around_.memory, base::MemoryKind::kInput};
  if (!one->charge.grow(one->asked.job.body.size())) return nullptr;
  const uint64_t number = next_aside_++;
  one->timer = around_.env.at(around_.env.now(), [this, number] { begin_aside(number); });
  aside_[number] = std::move(one);
  return [weak = std::weak_ptr(alive_), post = around_.post, number] {
    post([weak, number] {
      auto self = weak.lock();
      if (!self) return;
      auto at = (*self)->aside_.find(number);
      if (at == (*self)->aside_.end()) return;
      if (at->second->running) return at->second->running->exchange->abandon();
      (*self)->end_aside(number, {});
    });
  };
}

void ShardJobs::begin_aside(uint64_t number) {
  RunningAside& one = *aside_.at(number);
  one.timer = base::TimerId::kNone;
  const auto status = base::attempt("a request in the background", [&] {
    one.running = std::make_unique<Running>(around_.callers);
    one.running->job = one.asked.job;
    one.running->peer.client = one.asked.client;
    start_exchange(*one.running, Requests::kCounted,
                   [this, number](Outcome outcome) { end_aside(number, std::move(outcome)); });
  });
  if (!status.ok()) end_aside(number, {});
}

void ShardJobs::end_aside(uint64_t number, Outcome outcome) {
  auto at = aside_.find(number);
  if (at == aside_.end()) return;
  RunningAside& one = *at->second;
  const auto ran = std::move(one.running);
  const base::Time when = around_.env.now() + wait_of(outcome);
  if (refused_for_now(outcome) && when < one.asked.until && one.asked.again()) {
    one.timer = around_.env.at(when, [this, number] { begin_aside(number); });
    return;
  }
  const auto over = aside_.extract(at);
  over.mapped()->asked.done(std::move(outcome));
}

// A job for which there was no memory is tried again. One that runs here already was given back meanwhile, by a node
// that had missed this one: its first run ends it.
void ShardJobs::take(Job job) {
  const JobId id = job.id;
  if (running_.contains(key_of(id))) return store_.want(around_.id, 1);
  if (base::attempt("a job", [&] { run(std::move(job)); }).ok()) return;
  running_.erase(key_of(id));
  let_go(id, kRefusedWait);
  store_.want(around_.id, 1);
}

// Nothing: that is its answer.
std::optional<base::Duration> ShardJobs::wait_for(const Job& job, const Outcome& outcome) {
  if (refused_for_now(outcome)) return wait_of(outcome);
  if (!store_.is_shared() || job.model.empty()) return std::nullopt;
  if (outcome.status != kNoSuchModel) return store_.missing().found(job.model), std::nullopt;
  return store_.missing().may_come(job.model, key_of(job.id), around_.env.now()) ? std::optional(kRefusedWait)
                                                                                 : std::nullopt;
}

// A job that was cancelled has a status of 0; of its answer nothing is kept.
void ShardJobs::ended(const std::string& key, Outcome outcome) {
  auto node = running_.extract(key);
  if (node.empty()) return;
  std::unique_ptr<Running> running = std::move(node.mapped());
  const JobId id = running->job.id;
  if (const auto wait = wait_for(running->job, outcome)) {
    let_go(id, *wait);
    store_.want(around_.id, 1);
  } else {
    store_.shown().note_finished(outcome.status);
    const auto kind = kinds_.find(running->job.kind);
    auto write = [id, outcome = std::move(outcome), owner = running->job.requester.owner, most = limits().tenant_disk,
                  shorten = kind == kinds_.end() ? nullptr : kind->second.shorten](Storage& s) {
      return write_outcome(s, id, outcome, {owner, most}, shorten);
    };
    // The next one begins when this one's place is free: results that wait are no more than jobs that run.
    auto then = [store = &store_, shard = around_.id](const base::Status&) { store->want(shard, 1); };
    store_.write(std::move(write), std::move(then));
  }
}

void ShardJobs::cancel_here(const std::string& batch) {
  for (auto& [key, running] : running_)
    if (running->job.id.batch == batch && running->exchange) running->exchange->abandon();
  for (auto& [number, one] : aside_)
    if (one->asked.job.id.batch == batch && one->asked.cancel) one->asked.cancel();
}

}  // namespace weir::jobs
