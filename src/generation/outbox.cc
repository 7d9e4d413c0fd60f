#include "generation/outbox.h"

#include <algorithm>

#include "base/until_done.h"

namespace weir::generation {
namespace {

constexpr const char* kWhere = "a token lane's answers";

}  // namespace

void Outbox::take(std::vector<msg::Mail>& mail) {
  for (auto& one : mail) take(std::move(one));
  mail.clear();
}

void Outbox::take(msg::Mail&& mail) {
  auto* call = mail.call;
  const bool last = mail.event.last();
  outgoing_.add(call->home, std::move(mail));
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

}  // namespace weir::generation
