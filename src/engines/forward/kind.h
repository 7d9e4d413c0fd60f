// Kind: the protocol that the origins of a model speak. What is the same for all of them (which origin a call goes to,
// what is sent again, time limits, credit) is ShardModel's; a Kind turns one Call into one request, and what comes back
// into Events. One for each model; any thread, but for what it makes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/openai/text_rows.h"
#include "engines/forward/options.h"
#include "msg/call.h"
#include "msg/spec.h"
#include "net/client_conn.h"
#include "net/shard.h"

namespace weir::forward {

class OriginConn;

// The one whose word the end of an attempt is.
enum class From : uint8_t {
  kOrigin,     // it has answered, or has broken a rule
  kBusy,       // it has refused the request before it did anything for it: another origin may take it
  kTransport,  // the connection, not the origin, says so: the request may have been seen
  kStale,      // the same of a connection that had been used before, and brought nothing: the origin has closed it
  kUnsent,     // the request has not left
  kHere,       // this server has no memory for the answer: it would have none for that of another origin
};

// RESOURCE_EXHAUSTED, as base::overloaded() has it.
base::Status no_memory_for_answer();

// One Call at one origin. On one shard's thread.
class Attempt {
 public:
  struct Outcome {
    base::Status status;  // does not name the origin yet
    From from = From::kOrigin;
    std::optional<msg::Event> last;  // where the status is OK: Outputs that are final, or Done
  };
  class Receiver {
   public:
    // Something of an answer has come.
    virtual void on_progress() = 0;
    // Outputs that are not final, or a Token: kept for as long as the Call has no credit. Errors:
    // no_memory_for_answer(), and the attempt is to give up.
    [[nodiscard]] virtual base::Status on_part(msg::Event&& part) = 0;
    // Parts wait for credit: the origin is held back until let_go().
    virtual bool holds() const = 0;
    // The last call; it may destroy the Attempt.
    virtual void on_over(Outcome&& ending) = 0;

   protected:
    ~Receiver() = default;
  };

  virtual ~Attempt() = default;  // ends what is under way; nothing is called any more

  // The outcome of start(). Where it is not OK nothing is called, and somebody else may be asked only if the fault is
  // the origin's.
  enum class Fault : uint8_t {
    kOrigin,  // OriginConn::send() says so: it cannot be reached now
    kCall,    // what this kind cannot send (UNIMPLEMENTED, INVALID_ARGUMENT), or no memory (RESOURCE_EXHAUSTED)
  };
  struct Started {
    base::Status status;
    Fault fault = Fault::kOrigin;
  };
  virtual Started start(OriginConn& conn) = 0;
  virtual void let_go() = 0;
  // The answer has not come in time: ends it, by way of on_over(), and its connection gets no more calls.
  virtual void give_up_late(base::Status status) = 0;
  // Something of an answer has come.
  virtual bool answered() const = 0;
};

// A Call as an origin is asked.
struct Asked {
  const msg::Call& call;
  const msg::ModelSpec& spec;
  const Options& options;
  base::SlabSource& slabs;                   // for the answer
  std::span<const uint32_t> generated = {};  // tokens of other origins; until start() returns
  base::Time now{};
};

// Questions to an origin that are no Calls. One question at a time; on one shard's thread.
class Questions {
 public:
  // Called once, later or from inside; errors name the origin. May destroy the Questions.
  using OnReady = std::function<void(base::Result<bool>)>;
  using OnSignature = std::function<void(base::Result<msg::ModelSpec>)>;

  virtual ~Questions() = default;  // ends what is asked
  virtual void ask_ready(base::Duration timeout, OnReady then) = 0;
  // The model's signature laid over `wanted`. Errors: UNAVAILABLE where it is not ready there; INTERNAL: nonsense.
  virtual void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) = 0;
};

class Kind {
 public:
  virtual ~Kind() = default;
  virtual net::ClientConn::Http http() const = 0;
  // All that is given outlives what is made.
  virtual std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const = 0;
  virtual std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                                    const Options& options) const = 0;
  // Whether the model can run the Call: checked before it is sent.
  virtual base::Status fits(const msg::Call& call, const msg::ModelSpec& spec) const = 0;
  // Whether another origin can go on behind tokens that are there.
  virtual bool can_move(const msg::Call& /*call*/) const { return true; }
  // Calls of one row each go as one request (gather.h); nothing: they do not.
  virtual std::optional<RowsFor> gathers() const { return {}; }
};

// The Kind that options.kind names; `folder`: the model's own, or empty. Errors: those of its files.
base::Result<std::shared_ptr<const Kind>> make_kind(const Options& options, const std::string& folder);

}  // namespace weir::forward
