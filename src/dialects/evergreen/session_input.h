// SessionInput: what the client sends, read into the graph and into actions. A part of a message that cannot be taken
// now is held with all that follows it, and flow control holds the client.
#pragma once

#include <string_view>

#include "base/bytes.h"
#include "dialects/evergreen/graph/session_memory.h"
#include "dialects/evergreen/message.h"
#include "dialects/evergreen/pending_loads.h"

namespace weir::evergreen {

class SessionInput final : MessageSink {
 public:
  SessionInput(Session& session, PendingLoads& loads) : session_(session), loads_(loads) {}

  // A serialized SessionMessage; not while one is held. What is wrong with it ends the session.
  void read(const base::Bytes& message);
  // Reads on in the message that is held. False: there is none, or it is held for longer.
  bool go_on();
  bool holds() const override { return !held_.empty(); }
  // The message is held until the shard's next turn.
  bool waits_for_turn() const { return holds() && until_ == Until::kNextTurn; }
  void clear() { held_ = {}, copy_ = {}, copy_charge_ = {}; }

 private:
  // Until nodes have made room, models take another action, references have come, the session has been resumed, the
  // next turn.
  enum class Until : uint8_t { kRoom, kModel, kLoads, kResumed, kNextTurn };
  base::Status on_fragment(Fragment& fragment, std::string_view reference) override;
  base::Status on_action(ActionRequest&& request) override;
  void read_from(const base::Bytes& message, size_t at);
  base::Status hold(Until until);
  bool held_back() const;
  bool copy(Fragment& fragment);

  Session& session_;
  PendingLoads& loads_;
  const base::Bytes* reading_ = nullptr;
  base::Bytes held_;
  Until until_ = Until::kRoom;
  size_t at_ = 0;      // where to go on in it
  uint64_t used_ = 0;  // of the session's memory when it was held
  base::Block copy_;   // of the data of the fragment there, as far as it has been copied
  Hold copy_charge_;
};

}  // namespace weir::evergreen
