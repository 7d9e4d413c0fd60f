#include "generation/outbox.h"

#include <algorithm>

#include "base/until_done.h"

namespace weir::generation {
namespace {

constexpr const char* kWhere = "a token lane's answers";
constexpr size_t kHomesKeptPerStep = 64;  // bursts whose memory one step leaves to the next

}  // namespace

void Outbox::take(std::vector<msg::Mail>& mail) {
  for (auto& one : mail) take(std::move(one));
  mail.clear();
}

void Outbox::take(msg::Mail&& mail) {
  auto* call = mail.call;
  const bool last = mail.event.last();
  base::until_done(kWhere, [&] {
    auto* home = call->home;
    auto at = std::find_if(outgoing_.begin(), outgoing_.end(), [&](const auto& burst) { return burst.first == home; });
    if (at == outgoing_.end()) at = outgoing_.insert(outgoing_.end(), {home, {}});
    at->second.push_back(std::move(mail));
  });
  if (last) std::erase(present_, call);
}

std::vector<msg::Call*> Outbox::present(const std::vector<msg::Call*>& more) const {
  std::vector<msg::Call*> all;
  base::until_done(kWhere, [&] {
    all = present_;
    all.reserve(all.size() + more.size());
  });
  for (auto* call : more)
    if (std::find(present_.begin(), present_.end(), call) == present_.end()) all.push_back(call);
  return all;
}

void Outbox::fail(msg::Call& call, const base::Status& why) {
  msg::Mail mail{&call, {msg::Failed{}}};
  base::until_done(kWhere, [&] { std::get<msg::Failed>(mail.event.what).status = why; });
  take(std::move(mail));
}

void Outbox::post() {
  for (auto& [home, burst] : outgoing_)
    if (!burst.empty()) base::until_done(kWhere, [home = home, &burst = burst] { home->post(burst); });
  if (outgoing_.size() > kHomesKeptPerStep) outgoing_.clear();
}

}  // namespace weir::generation
