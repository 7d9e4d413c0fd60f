// The messages of OpenAI's chat completions (/v1/chat/completions) as a client of them has them. Pure; any thread. What
// an origin sends is a stranger's: a message is refused at its first excess.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "engines/forward/openai/message.h"
#include "engines/forward/openai/message_parts.h"
#include "engines/forward/options.h"
#include "msg/call.h"

namespace weir::forward {

// A streamed chat completion, in pieces; `members`: of put_images(). Of the options: the model, and how the answer's
// length is called. `max_length`: of the model, in tokens as counted
// here: a request that leaves the length of the answer open does so there, too.
std::vector<base::Bytes> write_chat(const msg::Call& call, std::vector<base::Bytes> members, const Options& options,
                                    uint32_t max_length);

// The calls of tools of one answer, which come in pieces. Servers do not agree on how a piece says which call it
// belongs to: by `index`, by `id` with the same index for all, by neither in an answer that is no stream.
class ToolCalls {
 public:
  static constexpr size_t kMost = 128, kMostText = 1 << 20;

  struct Part {
    std::optional<size_t> index;
    std::string id, name, arguments;  // each may be empty
  };

  bool empty() const { return calls_.empty(); }
  // One piece. False: there are too many calls, or there is too much of them.
  bool add(const Part& part);
  // All of them in Hermes' form. kCut: the answer ended at its greatest length, so that the call that was being written
  // is left out. Errors: INTERNAL: arguments that are no JSON.
  enum class Ending : uint8_t { kWhole, kCut };
  base::Result<std::string> text(Ending ending) const;

 private:
  struct Call {
    std::optional<size_t> index;
    std::string id, name, arguments;
    bool has_object() const;
  };
  Call* call_of(const Part& part);

  std::vector<Call> calls_;
  size_t size_ = 0;
};

// One event of a stream, or a whole answer: a `delta` or a `message`. What it has of calls goes to `calls`;
// log-probabilities that nobody has asked for (`limits`: of no token) are passed over. Errors: INTERNAL.
base::Result<CompletionChunk> read_chat_chunk(std::string_view json, ToolCalls& calls, LogprobLimits limits);

}  // namespace weir::forward
