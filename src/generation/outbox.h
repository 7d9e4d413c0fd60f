// Outbox: the Calls of a token lane that have not had their last Event, and the mail on its way to them. The lane's
// thread.
//
// Nothing here fails for want of memory: an answer for which there is none waits until there is, and the lane with it,
// since nobody else can give that answer.
#pragma once

#include <vector>

#include "base/status.h"
#include "bus/mail_bursts.h"
#include "msg/call.h"

namespace weir::generation {

class Outbox {
 public:
  // These are here from now on. Throws std::bad_alloc, and then they are not.
  void arrive(const std::vector<msg::Call*>& calls) { present_.insert(present_.end(), calls.begin(), calls.end()); }
  // Takes all of `mail`, in order. A Call whose last Event it is has left.
  void take(std::vector<msg::Mail>& mail);
  // Those that are here, and those of `more` that are not, in their order; the caller is to fail() them.
  std::vector<msg::Call*> present(const std::vector<msg::Call*>& more) const;
  void fail(msg::Call& call, const base::Status& why);
  // One burst per home shard.
  void post() { outgoing_.post(); }

 private:
  void take(msg::Mail&& mail);

  std::vector<msg::Call*> present_;
  bus::MailBursts outgoing_;
};

}  // namespace weir::generation
