#include "bus/mail_bursts.h"

#include <algorithm>

#include "base/until_done.h"

namespace weir::bus {
namespace {

constexpr size_t kHomesKept = 64;
constexpr const char* kWhere = "mail of a Call";

}  // namespace

void MailBursts::add(msg::Home* home, msg::Mail&& mail) {
  base::until_done(kWhere, [&] {
    auto at = std::find_if(bursts_.begin(), bursts_.end(), [&](const auto& burst) { return burst.first == home; });
    if (at == bursts_.end()) at = bursts_.insert(bursts_.end(), {home, {}});
    auto& burst = at->second;
    if (burst.size() == burst.capacity())
      burst.reserve(2 * burst.size() + 1);  // the mail is moved into room that is there
    burst.push_back(std::move(mail));
  });
}

void MailBursts::post() {
  for (auto& [home, burst] : bursts_)
    if (!burst.empty()) base::until_done(kWhere, [home = home, &burst = burst] { home->post(burst); });
  trim();
}

void MailBursts::trim() {
  if (bursts_.size() > kHomesKept) bursts_.clear();
}

void post_one(msg::Call* call, msg::Event&& event) {
  std::vector<msg::Mail> one;
  base::until_done(kWhere, [&] {
    one.reserve(1);
    if (one.empty()) one.push_back({call, std::move(event)});
    call->home->post(one);
  });
}

}  // namespace weir::bus
