// Call, Event and the two seams, Inbox and Sink: the language in which protocols and engines speak to each other.
//
// A Call is one inference in flight. It is made by its home shard's bus, filled by a dialect, lent to an Inbox by
// put(), and given back by the Event for which last() is true; the home shard frees it when it drains that Event, also
// when the client has left long before. Nobody but the Inbox's own thread touches a lent Call, save for the two
// atomics.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/env.h"
#include "base/ids.h"
#include "base/status.h"
#include "base/ticket.h"
#include "base/usage_limiter.h"
#include "msg/generate.h"
#include "msg/tensor.h"
#include "msg/timeline.h"

namespace weir::msg {

struct Call;

using ParamValue = std::variant<bool, int64_t, uint64_t, double, std::string>;
using Parameters = std::vector<std::pair<std::string, ParamValue>>;
const ParamValue* find(const Parameters& parameters, std::string_view name);

// The kinds of Events, which an engine answers with. Outputs: the answer, or one of several of a decoupled model.
// Token: one position of a sequence, generated or (where a range asked for it) of the prompt, in ascending order. Done:
// a sequence has ended.
struct Outputs {
  std::vector<Tensor> tensors;
  Parameters parameters;
  bool final = true;
};
struct Token {
  uint32_t id = 0;
  uint32_t position = 0;
  bool prefill = false;                         // a token of the prompt
  std::shared_ptr<const TokenDetails> details;  // null where nothing was asked for
  bool moved = false;                           // another server has made it than the token before (engines/forward)
};
struct Done {
  uint32_t prompt_tokens = 0;      // the whole sequence before the first generated token
  uint32_t cached_tokens = 0;      // those of them that were not computed again
  uint32_t completion_tokens = 0;  // the stop token included
  Finish finish = Finish::kNone;
  uint32_t stop_id = 0;                      // of kEos and kStopId
  std::optional<uint32_t> thought_tokens{};  // of completion_tokens, where the tokens that came are not those counted
};
struct Failed {
  base::Status status;
  bool final = true;  // false: in place of one of several answers; only where Call::takes_errors
};

struct Event {
  std::variant<Outputs, Token, Done, Failed> what;

  // After this Event the Call is the home shard's again, and no other Event follows.
  bool last() const {
    if (auto* outputs = std::get_if<Outputs>(&what)) return outputs->final;
    if (auto* failed = std::get_if<Failed>(&what)) return failed->final;
    return !std::holds_alternative<Token>(what);
  }
};

// The seam upwards: where a Call's Events arrive, on the Call's home shard. The Call may be read during on().
class Sink {
 public:
  virtual void on(Call& call, Event&& event) = 0;

 protected:
  ~Sink() = default;
};

// The seam downwards: where a Call goes. Lanes, sessions, pipelines, forwarders and test fakes are Inboxes.
class Inbox {
 public:
  // Lends the Call. Any shard's thread; the first Event may be posted before put() returns, but is drained later.
  virtual void put(Call* call) = 0;
  // Something about a lent Call changed (cancelled, credit): look again. Carries no pointer on purpose.
  virtual void poke() {}
  virtual ~Inbox() = default;
};

struct Mail {
  Call* call;
  Event event;
};

// The way back to a Call's home shard; bus::Mailbox is the one in production.
class Home {
 public:
  // From any thread; empties `burst`. One wake-up at most, however long the burst.
  virtual void post(std::vector<Mail>& burst) = 0;
  // From the home shard itself (inline engines): no lock; drained at the end of this turn of the loop.
  virtual void post_here(Mail&& mail) = 0;

 protected:
  ~Home() = default;
};

// A Call's Events so far, as the home shard has got them. bus::CallHandle writes it.
struct Progress {
  uint32_t prompt_tokens = 0, cached_tokens = 0;  // of a sequence that has ended by itself: as in Done
  uint32_t generated_tokens = 0;
  uint32_t moves = 0;  // Tokens that were `moved`
  Finish finish = Finish::kNone;
  base::Code code = base::Code::kOk;  // of Failed
};

// On whose behalf Calls come: keyed hashes, even of a secret that the client has shown, odd of the address of one that
// has shown none. 0: nobody in particular.
constexpr bool is_anonymous(uint64_t tenant) { return (tenant & 1) != 0; }
// Which clients share sessions and cached prefixes when they have shown no secret.
enum class Anonymous : uint8_t {
  kPerAddress,  // those of one address
  kShared,      // all of them
};

// Handed on to servers that are asked on behalf of a request: W3C Trace Context, and how far the request has come.
struct TraceFields {
  std::string traceparent, tracestate;  // both empty: it belongs to no trace; the second may be
  uint32_t hops = 0;                    // servers of weir that have forwarded it
};

// One inference in flight: the fields that a dialect fills in. Copyable only for tests; never copied on the
// path.
struct Call {
  std::string model;
  std::string version;  // "" = the server chooses
  std::string id;
  std::vector<Tensor> inputs;
  std::vector<std::string> outputs;  // names asked for; empty = all
  Parameters parameters;
  uint32_t priority = 0;                        // 0 = the model's default; 1 is the most urgent
  base::Time deadline = base::kNever;           // past this nobody wants the answer
  base::Duration queue_timeout{0};              // longest stay in the queue; 0 = the model's default
  uint64_t tenant = 0;                          // see above: among equals, tenants take turns
  uint64_t cache_scope = 0;                     // Calls of different ones never share cached prefixes; the bus sets it
  std::shared_ptr<base::UsageLimiter> limiter;  // charged for its tokens; null: there are no limits
  std::shared_ptr<const TraceFields> trace;     // null: the request belongs to no trace, and comes from no weir
  base::SessionId session;                      // whose keys and values the engine keeps between Calls
  uint32_t adapter = 0;       // in the order of ModelSpec::adapters, from 1 on; 0: none. The adapter's Inbox sets it
  bool takes_errors = false;  // an error may be one of several answers, and others follow; else it is the end
  std::unique_ptr<Generation> generation;  // of a Call for a model that makes tokens; null for tensors
  Sink* sink = nullptr;                    // null once the client has left; home shard only
  base::Ticket ticket;  // of the connection that asked: given back when the Call is over, also after the client left

  // The bus's and the Inbox's.
  Home* home = nullptr;
  const void* lease = nullptr;  // what keeps the model version alive; the bus's business
  Timeline times;
  std::unique_ptr<PipelineSteps>
      steps;          // where a pipeline writes of its steps, for a request that is traced; null: nowhere
  Progress progress;  // home shard only
  uint32_t rows = 1;  // rows of the batch dimension that this Call brings

  std::atomic<bool> cancelled{false};    // raised by the home shard; the Inbox looks at it before it spends anything
  std::atomic<bool> satisfied{false};    // beside it: the client has all that it wanted, so this end is no failure
  std::atomic<int32_t> credit{1 << 30};  // Events that the peer has room for

  // Back to a fresh Call that keeps its buffers' capacity.
  void clear();
};

}  // namespace weir::msg
