// MailBursts: mail on its way to the homes of its Calls, one burst for each home.
//
// Nothing here fails for want of memory: add() waits until there is some, and its thread waits with it, since an answer
// that is dropped would leave its Call open for ever.
#pragma once

#include <utility>
#include <vector>

#include "msg/call.h"

namespace weir::bus {

class MailBursts {
 public:
  using Bursts = std::vector<std::pair<msg::Home*, std::vector<msg::Mail>>>;

  void add(msg::Home* home, msg::Mail&& mail);
  // Posts every burst. The memory stays for the next ones. A home without mail is not touched: it may be gone.
  void post();

  Bursts& all() { return bursts_; }
  // After post(): gives memory back if there were many homes.
  void trim();

 private:
  Bursts bursts_;
};

// One Event to its Call's home, from any thread.
void post_one(msg::Call* call, msg::Event&& event);

}  // namespace weir::bus
