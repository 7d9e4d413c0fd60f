#include "engines/forward/forwarded_call.h"

#include <algorithm>
#include <utility>

#include "bus/mail_bursts.h"
#include "engines/forward/hedge.h"
#include "msg/credit.h"

namespace weir::forward {

ForwardedCall::ForwardedCall(ShardModel& its_home, msg::Call* its_call, ShardModel::Came its_way)
    : home(its_home), call(its_call), came(its_way), waiting(its_home.slabs_.ledger()) {}

ForwardedCall::~ForwardedCall() { home.shard_.env().cancel(hedge_timer); }

void ForwardedCall::on_progress() { progress = home.shard_.env().now(); }

base::Status ForwardedCall::on_part(msg::Event&& part) {
  on_progress();
  auto* token = std::get_if<msg::Token>(&part.what);
  if (token && token->prefill && (!generated.empty() || token->position < prefilled)) return {};
  if (base::Status s = waiting.take_room(part); !s.ok()) return starved = true, s;
  attempts = 0;
  if (token) {
    if (token->prefill)
      prefilled = token->position + 1;
    else
      note_token(*token);
  }
  waiting.push(std::move(part));
  (void)deliver();
  return {};
}

void ForwardedCall::note_token(msg::Token& token) {
  token.position = uint32_t(call->generation->length() + generated.size());
  token.moved = before > 0 && generated.size() == before;
  generated.push_back(token.id);
  auto& stats = *home.stats_.tokens;
  const auto nanoseconds = [](base::Duration d) { return uint64_t(std::max<int64_t>(d.count(), 0)); };
  if (generated.size() == 1) {
    call->times.first_token = progress;
    stats.time_to_first_token.record_ns(nanoseconds(progress - call->times.queued));
  } else {
    stats.inter_token.record_ns(nanoseconds(progress - last_token));
  }
  stats.generated_total.add();
  last_token = progress;
}

void ForwardedCall::post(msg::Event&& event) {
  if (came == ShardModel::Came::kHere)
    call->home->post_here({call, std::move(event)});
  else
    bus::post_one(call, std::move(event));
}

// The time that parts waited for credit is the client's, not the origin's.
bool ForwardedCall::deliver() {
  const bool held = !waiting.empty();
  while (!waiting.empty() && call->credit.load(std::memory_order_acquire) > 0) {
    msg::Event part = waiting.pop();
    posted = true;
    call->credit.fetch_sub(msg::credit_of(part), std::memory_order_acq_rel);
    post(std::move(part));
  }
  if (!waiting.empty()) return true;
  if (held) on_progress();
  if (attempt) attempt->let_go();
  if (!end) return true;
  home.over(*this, *std::exchange(end, {}));
  return false;
}

void ForwardedCall::on_over(Attempt::Outcome&& ending) {
  if (ending.status.ok() && !waiting.empty())
    end = std::move(ending);
  else
    home.over(*this, std::move(ending));
}

}  // namespace weir::forward
