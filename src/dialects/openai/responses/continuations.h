// Continuations: the responses of one WebSocket that are not stored, which requests on it may go on behind
// (`previous_response_id`): the last few.
//
// They lie with what the client's tenant has stored, within its share of the memory and for as long, but only this
// connection finds them, and with it they go. Where there is no room for one, it cannot be continued.
#pragma once

#include <deque>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "dialects/openai/state.h"

namespace weir::openai::responses {

class Continuations {
 public:
  static constexpr size_t kMost = 4;

  Continuations(OpenAiState& state, uint64_t tenant) : state_(state), tenant_(tenant) {}
  ~Continuations() { forget_all(); }
  Continuations(const Continuations&) = delete;

  // `turns`: of the chat to the end of the response, as the inside of a JSON list.
  void keep(const std::string& id, std::string turns);
  void forget(std::string_view id);
  void forget_all();
  // The ids, the oldest first.
  const std::deque<std::string>& ids() const { return ids_; }

 private:
  void remove(const std::string& id);

  OpenAiState& state_;
  const uint64_t tenant_;
  std::deque<std::string> ids_;
};

// Those of the connection that the request has come on; null: it is no WebSocket's.
Continuations* continuations_of(const wire::Exchange& exchange);

}  // namespace weir::openai::responses
