#include "sched/local_first.h"

#include <atomic>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/attempt.h"
#include "base/check.h"
#include "bus/mail_bursts.h"
#include "sched/proxy_inbox.h"

namespace weir::sched {
namespace {

// Numbers that are spread well enough to choose by: SplitMix64 (Steele, Lea and Flood, 2014).
uint64_t mixed(uint64_t n) {
  n = (n ^ (n >> 30)) * 0xbf58476d1ce4e5b9;
  n = (n ^ (n >> 27)) * 0x94d049bb133111eb;
  return n ^ (n >> 31);
}

bool belongs_to_session(const msg::Call& call) { return (call.session.high | call.session.low) != 0; }

class LocalFirst final : public ProxyInbox {
 public:
  LocalFirst(std::unique_ptr<msg::Inbox> local, std::unique_ptr<msg::Inbox> origins,
             std::function<std::optional<double>(uint64_t)> load, uint32_t enough)
      : ProxyInbox(Receives::kAtOnce), load_(std::move(load)), enough_(enough) {
    inboxes_[size_t(Way::kHere)] = std::move(local), inboxes_[size_t(Way::kAway)] = std::move(origins);
  }
  ~LocalFirst() override {
    for (auto& inbox : inboxes_) inbox.reset();  // their threads may still be inside post()
    base::check(inside_.empty(), "an Inbox outlives its Calls");
  }

  void put(msg::Call* call) override;
  void poke() override {
    for (auto& inbox : inboxes_) inbox->poke();
  }

 private:
  enum class Way : uint8_t { kHere, kAway };
  struct Inside {
    msg::Home* home = nullptr;
    Way way = Way::kHere;
    bool at_home = true;  // this thread is its home's: what comes back inside put() may be posted there
    bool begun = false;   // something of an answer has come
  };
  // The home that an Event goes to; nothing: the Call has been put once more.
  using Goes = std::optional<Inside>;

  void receive(msg::Mail&& mail, bus::MailBursts& out) override;
  void post_here(msg::Mail&& mail) override;

  Way choose(const msg::Call& call);
  void lend(msg::Call* call, const Inside& inside);
  void forget(msg::Call* call);
  std::pair<Inside, bool> leave(msg::Mail& mail);
  bool returns(const msg::Mail& mail, const Inside& inside) const;
  Goes take(msg::Mail& mail, bool at_home);

  const std::function<std::optional<double>(uint64_t)> load_;
  const uint32_t enough_;
  std::unique_ptr<msg::Inbox> inboxes_[2];
  std::atomic<uint32_t> here_{0};  // Calls
  std::atomic<uint64_t> random_{0};
  std::mutex mutex_;
  std::unordered_map<const msg::Call*, Inside> inside_;  // under mutex_
};

LocalFirst::Way LocalFirst::choose(const msg::Call& call) {
  const uint32_t here = here_.load(std::memory_order_relaxed);
  if (here < enough_ || belongs_to_session(call)) return Way::kHere;
  const auto away = load_(mixed(random_.fetch_add(0x9e3779b97f4a7c15, std::memory_order_relaxed)));
  return away && *away < 1.0 + here ? Way::kAway : Way::kHere;
}

// On an exception the caller has the Call.
void LocalFirst::lend(msg::Call* call, const Inside& inside) {
  {
    std::lock_guard lock(mutex_);
    inside_.insert_or_assign(call, inside);
  }
  if (inside.way == Way::kHere) here_.fetch_add(1, std::memory_order_relaxed);
  call->home = this;
  try {
    inboxes_[size_t(inside.way)]->put(call);  // this may be gone afterwards
  } catch (...) {
    if (inside.way == Way::kHere) here_.fetch_sub(1, std::memory_order_relaxed);
    std::lock_guard lock(mutex_);
    inside_.erase(call);
    call->home = inside.home;
    throw;
  }
}

void LocalFirst::put(msg::Call* call) {
  const auto relayed = std::erase_if(call->parameters, [](const auto& one) { return one.first == kRelayed; });
  enter([&] { lend(call, {.home = call->home, .way = relayed ? Way::kHere : choose(*call)}); });
}

// Only before a part has come, so that no client sees the beginning of an answer twice.
bool LocalFirst::returns(const msg::Mail& mail, const Inside& inside) const {
  const auto* failed = std::get_if<msg::Failed>(&mail.event.what);
  return failed && inside.way == Way::kAway && !inside.begun && runs_here_then(failed->status.code) &&
         !mail.call->cancelled.load(std::memory_order_acquire);
}

// The way of its Call, and whether it comes back from elsewhere to be put once more.
std::pair<LocalFirst::Inside, bool> LocalFirst::leave(msg::Mail& mail) {
  std::lock_guard lock(mutex_);
  auto at = inside_.find(mail.call);
  base::check(at != inside_.end(), "Events name a Call that is inside");
  const Inside inside = at->second;
  at->second.begun = true;
  const bool again = returns(mail, inside);
  if (!mail.event.last() || again) return {inside, again};
  inside_.erase(at);
  mail.call->home = inside.home;
  if (inside.way == Way::kHere) here_.fetch_sub(1, std::memory_order_relaxed);
  return {inside, false};
}

LocalFirst::Goes LocalFirst::take(msg::Mail& mail, bool at_home) {
  const auto [inside, returning] = leave(mail);
  if (!returning) return inside;
  const Inside again{.home = inside.home, .way = Way::kHere, .at_home = at_home && inside.at_home};
  const base::Status status = base::attempt("a model that runs here, too", [&] { lend(mail.call, again); });
  if (status.ok()) return {};
  mail.call->home = inside.home;
  mail.event = {msg::Failed{status}};
  return inside;
}

void LocalFirst::receive(msg::Mail&& mail, bus::MailBursts& out) {
  if (const auto goes = take(mail, false)) out.add(goes->home, std::move(mail));
}

// A Call that came in on its home's own thread is answered there without a lock.
void LocalFirst::post_here(msg::Mail&& mail) {
  enter([&] {
    const auto goes = take(mail, true);
    if (!goes) return;
    if (goes->at_home) return goes->home->post_here(std::move(mail));
    bus::MailBursts out;
    out.add(goes->home, std::move(mail));
    out.post();  // this may be gone afterwards
  });
}

}  // namespace

std::unique_ptr<msg::Inbox> make_local_first(std::unique_ptr<msg::Inbox> local, const RemoteModel& remote,
                                             const msg::ModelSpec& spec, bus::ModelStats& stats, uint32_t enough) {
  return std::make_unique<LocalFirst>(std::move(local), remote.make_inbox(spec, stats), remote.load, enough);
}

}  // namespace weir::sched
