#include "sched/proxy_inbox.h"

namespace weir::sched {

ProxyInbox::Deferred& ProxyInbox::deferred() {
  thread_local Deferred deferred;
  return deferred;
}

void ProxyInbox::defer(std::shared_ptr<Resumable> resumable) { deferred().resumable.push_back(std::move(resumable)); }

// Mail first: what has been answered goes on before what waits begins.
void ProxyInbox::run_deferred(Deferred& d) {
  while (!d.mail.empty() || d.resumed < d.resumable.size()) {
    if (!d.mail.empty()) {
      auto [proxy, mail] = std::move(d.mail.front());
      d.mail.pop_front();
      bus::MailBursts out;
      proxy->receive(std::move(mail), out);
      out.post();
    } else {
      auto next = std::move(d.resumable[d.resumed++]);
      next->resume();
    }
  }
  d.resumable.clear();
  d.resumed = 0;
  d.busy = false;
}

void ProxyInbox::post(std::vector<msg::Mail>& burst) {
  enter([&] {
    if (receives_ == Receives::kDeferred) {
      auto& mail = deferred().mail;
      const size_t before = mail.size();
      mail.resize(before + burst.size());  // what throws has taken nothing
      for (size_t i = 0; i < burst.size(); ++i) mail[before + i] = {this, std::move(burst[i])};
      return burst.clear();
    }
    bus::MailBursts out;
    for (auto& mail : burst) receive(std::move(mail), out);
    burst.clear();
    out.post();  // this may be gone afterwards
  });
}

void ProxyInbox::post_here(msg::Mail&& mail) {
  enter([&] {
    if (receives_ == Receives::kDeferred) {
      deferred().mail.emplace_back(this, std::move(mail));
      return;
    }
    bus::MailBursts out;
    receive(std::move(mail), out);
    out.post();
  });
}

}  // namespace weir::sched
