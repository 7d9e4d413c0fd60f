// MailBursts: mail on its way to the homes of its Calls, one burst for each home.
//
// Nothing here fails for want of memory: an answer for which there is none waits until there is, and the thread with
// it, since nobody else can give that answer.
#pragma once

#include <utility>
#include <vector>

#include "msg/call.h"

namespace weir::bus {

class MailBursts {
 public:
  using Bursts = std::vector<std::pair<msg::Home*, std::vector<msg::Mail>>>;

  void add(msg::Home* home, msg::Mail&& mail);
  // Every burst leaves. The memory stays for the next ones. A home without mail is not touched: it may be gone.
  void post();

  Bursts& all() { return bursts_; }
  // Once the bursts have left: gives memory back if there were many homes.
  void trim();

 private:
  Bursts bursts_;
};

// One Event to its Call's home, from any thread.
void post_one(msg::Call* call, msg::Event&& event);

}  // namespace weir::bus
