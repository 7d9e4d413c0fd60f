#include "jobs/shared_journal.h"

#include <sys/random.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/encoding.h"
#include "base/log.h"

namespace weir::jobs {
namespace {

using base::Code;
using base::Status;

constexpr base::Duration kLookEvery = std::chrono::milliseconds(500);
// How often it is looked whether the log is long, and whether this copy is behind what is left of it.
constexpr base::Duration kShortenEvery = std::chrono::seconds(5);
// A node that has just come knows neither the others nor their models: it leaves jobs to those that do.
constexpr base::Duration kSettle = std::chrono::seconds(2);

std::string random_id() {
  char bytes[16];
  base::check(::getrandom(bytes, sizeof bytes, 0) == sizeof bytes, "the kernel gives no random bytes");
  return base::hex({bytes, sizeof bytes});
}

// As clients are told of it. That this copy is not of the log is a fault of the server's: another node may do it.
Status for_client(const Status& status) {
  if (status.code == Code::kAborted) return base::try_again(Code::kUnavailable, "others change the same; try again");
  if (status.code == Code::kFailedPrecondition) return base::failure(Code::kUnavailable, status.text);
  return status;
}

}  // namespace

SharedJournal::SharedJournal(ReplicaState& state, Log& log, std::string name, Bounds bounds,
                             std::function<void(const std::string& batch)> end)
    : state_(state),
      log_(log),
      replica_(state, log, {std::move(name), bounds.file, random_id, base::steady_now}),
      longest_(bounds.longest),
      end_(std::move(end)) {}

void SharedJournal::set_nodes(std::set<std::string> names) {
  std::lock_guard lock(mutex_);
  fresh_ = std::move(names);
}

// A membership that is empty because no news came yet, or that none reach any more, says of nobody that it is gone.
const std::set<std::string>* SharedJournal::nodes(base::Time now) {
  if (!log_.knows_nodes()) return nullptr;
  std::lock_guard lock(mutex_);
  if (fresh_) {
    if (known_ == base::Time()) known_ = now;
    nodes_ = *std::exchange(fresh_, std::nullopt);
  }
  return known_ == base::Time() ? nullptr : &nodes_;
}

bool SharedJournal::settled(base::Time now) { return nodes(now) && now - known_ >= kSettle; }

void SharedJournal::note(const Status& status) {
  shown_.sequence = replica_.sequence(), shown_.skipped = replica_.skipped(), shown_.voided = replica_.voided();
  if (!status.ok()) {
    std::lock_guard lock(mutex_);
    why_away_ = status.text;
  }
  if (away() != !status.ok()) shown_.away_since = status.ok() ? base::Time() : base::steady_now();
  seen_ = status;
  tell();
}

// Whether the log can be had, told once for each time; and once more where it turns out to be one that this copy is not
// of, which does not end by itself.
void SharedJournal::tell() {
  const bool for_good = seen_.code == Code::kFailedPrecondition && told_ != seen_.code;
  if (seen_.ok() == (told_ == Code::kOk) && !for_good) return;
  told_ = seen_.code;
  if (away())
    base::log::warning("the jobs' log is away: files and batches can be read, not changed", {{"reason", seen_.text}});
  else
    base::log::info("the jobs' log is there", {{"entries", replica_.sequence()}});
  if (const size_t most = log_.sizes().entry; !away() && longest_ > most)
    base::log::warning(
        "lines and results that are longer than an entry of the jobs' log fail",
        {{"bytes", most}, {"settings", "jobs.max_line, jobs.max_result; max_payload of the NATS server"}});
}

// A slice after the other: whoever reads sees what was acknowledged at any node before.
void SharedJournal::catch_up() {
  for (;;) {
    auto more = replica_.catch_up();
    note(more ? Status() : more.error());
    if (!more || !*more || stopping_) return;
  }
}

void SharedJournal::tell_ended() {
  for (const std::string& batch : replica_.take_ended()) end_(batch);
}

// Where the log's beginning is left to others for some seconds, what clients ask for may wait for it, too.
bool SharedJournal::may_wait(const Work& work, const Status& status) const {
  const bool again =
      status.code == Code::kAborted || status.code == Code::kUnavailable || status.code == Code::kResourceExhausted;
  if (!again || work.admission == Work::Admission::kGranted) return again;
  return status == log_is_new() && !stopping_ && waiting_.size() < kMostWaiting;
}

void SharedJournal::settle(Work work, const Status& status) {
  if (may_wait(work, status)) {
    wait(std::move(work));
    retry_ = base::steady_now() + kRetry;
    return;
  }
  if (work.then) (void)base::attempt("the journal", [&] { work.then(for_client(status)); });
}

void SharedJournal::group(std::deque<Work>& works) {
  std::vector<Replica::Run> runs;
  std::vector<Status> own(std::min(works.size(), kMostAtOnce));  // what each says itself
  for (size_t i = 0; i < own.size(); ++i)
    runs.emplace_back([&work = works[i], &said = own[i]](Recorder& recorder) { said = work.run(recorder); });
  const std::vector<Status> statuses = replica_.perform(runs);
  for (size_t i = 0; i < statuses.size(); ++i) {
    const Status& status = statuses[i].ok() ? own[i] : statuses[i];
    unreached_ = unreached_ || statuses[i].code == Code::kUnavailable;
    Work work = std::move(works.front());
    works.pop_front();
    if (status.code == Code::kAborted && ++work.tries < kMostTries)
      works.push_back(std::move(work));
    else
      settle(std::move(work), status);
  }
}

void SharedJournal::perform(std::deque<Work> works) {
  const Status thrown = base::attempt("the journal", [&] { do_all(works); });
  // Where memory is short there is an answer all the same.
  for (; !thrown.ok() && !works.empty(); works.pop_front())
    settle(std::move(works.front()), base::try_again(Code::kUnavailable, thrown.text));
  shown_.waiting = waiting_.size();
  tell_ended();
}

void SharedJournal::do_all(std::deque<Work>& works) {
  catch_up();
  while (!works.empty()) {
    if (away() && works.front().admission == Work::Admission::kGranted) {
      wait(std::move(works.front()));
      works.pop_front();
    } else {
      group(works);
    }
  }
  if (away() && seen_ != log_is_new()) refuse_asked(seen_);
  if (!away() && (stopping_ || base::steady_now() >= retry_)) try_waiting();
  if (stopping_) refuse_asked(log_is_new());
}

// Those that have waited for the beginning of a log that has gone away since, or for which there is no time any more.
void SharedJournal::refuse_asked(const Status& why) {
  std::deque<Work> all = std::exchange(waiting_, {});
  untold_ = 0;
  for (Work& work : all) {
    if (work.admission == Work::Admission::kGranted)
      wait(std::move(work));
    else if (work.then)
      (void)base::attempt("the journal", [&] { work.then(for_client(why)); });
  }
}

// Each once, in groups, up to the first that finds the log away.
void SharedJournal::try_waiting() {
  unreached_ = false;
  for (size_t left = waiting_.size(); left > 0 && !unreached_;) {
    std::deque<Work> works;
    for (; left > 0 && works.size() < kMostAtOnce; --left) {
      untold_ -= waiting_.front().then ? 0 : 1;
      works.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    while (!works.empty()) group(works);
  }
  if (waiting_.empty() && left_out_ > 0)
    base::log::info("what had waited for the jobs' log is in it", {{"left_out", std::exchange(left_out_, 0)}});
}

void SharedJournal::wait(Work work) {
  if (!work.then && untold_ >= kMostWaiting) {
    shown_.left_out.fetch_add(1);
    if (left_out_++ == 0)
      base::log::warning("too much waits for the jobs' log: removals and ends are left out",
                         {{"waiting", kMostWaiting}});
    return;
  }
  untold_ += work.then ? 0 : 1;
  waiting_.push_back(std::move(work));
}

void SharedJournal::look_at_nodes(base::Time now, const Failed& failed) {
  if (now >= look_) {
    look_ = now + kLookEvery;
    if (auto done = replica_.look_after_nodes(nodes(now), now); !done && done.error() != log_is_new())
      failed(done.error());
    state_.tidy();
  }
  if (now < snapshot_) return;
  snapshot_ = now + kShortenEvery;
  // An error that is worth another try is the log's, which is told where it is away.
  if (Status s = replica_.take_snapshot(); !s.ok() && !base::worth_trying_again(s) && !stopping_) failed(s);
}

bool SharedJournal::shorten(base::Time now, const Failed& failed) {
  if (now < shorten_) return false;
  auto more = replica_.shorten_log();
  if (!more) failed(more.error());
  if (more && *more) return true;
  shorten_ = now + kShortenEvery;
  return false;
}

bool SharedJournal::step(Duty& duty, base::WallTime now, const Failed& failed) {
  Status stepped;
  bool again = false;
  const Replica::Run run = [&](Recorder& recorder) {
    auto step = duty.step(recorder, now);
    again = step && *step;
    stepped = step ? Status() : step.error();
  };
  const Status written = replica_.perform(std::span(&run, 1), Record::As::kDuty).front();
  if (!written.ok()) duty.begin_anew();
  if (const Status& wrong = stepped.ok() ? written : stepped; !wrong.ok() && wrong.code != Code::kAborted)
    failed(wrong);
  return written.ok() && again;
}

bool SharedJournal::look_after(const std::vector<Duty*>& duties, base::WallTime now, const Failed& failed) {
  if (away() || stopping_) return false;
  const base::Time time = base::steady_now();
  look_at_nodes(time, failed);
  const bool mine = replica_.has_duties();
  shown_.duties = mine;
  if (mine && !std::exchange(had_duties_, true))
    for (Duty* duty : duties) duty->begin_anew();
  had_duties_ = mine;
  if (!mine) replica_.leave_duties();
  if (!mine || stopping_) return false;
  bool more = shorten(time, failed);
  for (Duty* duty : duties) more = step(*duty, now, failed) || more;
  tell_ended();
  return more;
}

std::optional<Job> SharedJournal::claim(size_t most, base::WallTime now) {
  auto job = replica_.next_claimed();
  if (!job) {
    if (away() || stopping_ || !settled(base::steady_now())) return std::nullopt;
    const Replica::Run run = [&](Recorder& recorder) { (void)recorder.journal.claim(most, now); };
    (void)replica_.perform(std::span(&run, 1));
    tell_ended();
    job = replica_.next_claimed();
  }
  return job;
}

// In a cluster all work is given a Recorder.
void SharedJournal::end_everywhere(Storage& storage, const std::string& batch) {
  static_cast<Recorder&>(storage).commands().end(batch);
}

std::string SharedJournal::detail() const {
  const base::Time since = shown_.away_since.load();
  if (since == base::Time()) return {};
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(base::steady_now() - since).count();
  std::lock_guard lock(mutex_);
  return "files and batches cannot be changed since " + std::to_string(seconds) + " s: " + why_away_;
}

void SharedJournal::write_families(std::string& out) const {
  auto family = [&](const char* name, const char* type, const char* help, uint64_t value) {
    ((out += "# HELP ") += name) += std::string(" ") + help + "\n# TYPE " + name + " " + type + "\n";
    (out += name) += " " + std::to_string(value) + "\n";
  };
  family("weir_jobs_log_connected", "gauge", "1 while the log of the cluster's jobs can be reached.",
         shown_.away_since.load() == base::Time());
  family("weir_jobs_log_sequence", "gauge", "The last entry of the log that this node has.", shown_.sequence);
  family("weir_jobs_log_skipped_total", "counter", "Entries that were not of a node, or came twice.", shown_.skipped);
  family("weir_jobs_log_voided_total", "counter", "Pieces of work of any node that were done again.", shown_.voided);
  family("weir_jobs_log_waiting", "gauge", "Results that wait for the log.", shown_.waiting);
  family("weir_jobs_duties", "gauge", "1 while this node reads and ends the cluster's batches.", shown_.duties);
}

}  // namespace weir::jobs
