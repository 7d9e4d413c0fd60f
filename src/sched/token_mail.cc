#include "sched/token_mail.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/attempt.h"

namespace weir::sched {
namespace {

constexpr size_t kHomesKeptPerStep = 64;  // bursts whose memory one step leaves to the next
constexpr base::Duration kMemoryMayCome = std::chrono::milliseconds(1);

template <class Work>
void until_done(Work work) {
  while (!base::attempt("a token lane's answers", work).ok()) std::this_thread::sleep_for(kMemoryMayCome);
}

}  // namespace

void TokenMail::take(std::vector<msg::Mail>& mail) {
  for (auto& one : mail) take(std::move(one));
  mail.clear();
}

void TokenMail::take(msg::Mail&& mail) {
  auto* call = mail.call;
  const bool last = mail.event.last();
  until_done([&] {
    auto* home = call->home;
    auto at = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const auto& burst) { return burst.first == home; });
    if (at == outgoing_.end()) at = outgoing_.insert(outgoing_.end(), {home, {}});
    at->second.push_back(std::move(mail));
  });
  if (last) std::erase(present_, call);
}

std::vector<msg::Call*> TokenMail::present(const std::vector<msg::Call*>& more) const {
  std::vector<msg::Call*> all;
  until_done([&] {
    all = present_;
    all.reserve(all.size() + more.size());
  });
  for (auto* call : more)
    if (std::find(present_.begin(), present_.end(), call) == present_.end()) all.push_back(call);
  return all;
}

void TokenMail::fail(msg::Call& call, const base::Status& why) {
  msg::Mail mail{&call, {msg::Failed{}}};
  until_done([&] { std::get<msg::Failed>(mail.event.what).status = why; });
  take(std::move(mail));
}

void TokenMail::post() {
  for (auto& [home, burst] : outgoing_)
    if (!burst.empty()) until_done([home = home, &burst = burst] { home->post(burst); });
  if (outgoing_.size() > kHomesKeptPerStep) outgoing_.clear();
}

}  // namespace weir::sched
