// Background responses (`background: true`): the client gets the response's id at once, polls it until it is complete,
// and may cancel it.
//
// The request is sent to the router a second time, by an Exchange without a connection, on behalf of the same client
// and counted as one more of its requests; the code that answers live requests makes the response and stores it. If
// that is refused for now (429, 503), it is tried again, for openai.response_ttl. Until it is complete the response is
// known here, and to the journal (put_off.h), so that it survives the end of its process. Without a journal it ends
// with the process.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "dialects/openai/endpoints.h"
#include "jobs/journal.h"

namespace weir::openai::responses {

// The background responses that are being made, of all shards. Any thread.
class BackgroundResponses {
 public:
  static constexpr size_t kMost = 256;  // of all tenants; one may have a quarter of them

  struct Run {
    uint64_t tenant = 0;
    std::string owner;           // as all nodes name it; empty where this one is alone
    base::Bytes queued;          // the response as it was at first: JSON; charged to its client
    size_t head = 0;             // bytes of it before what its client sent
    std::function<void()> stop;  // any thread
    bool cancelled = false, forgotten = false;
    std::shared_ptr<void> record{};  // until the journal has it
  };
  // False: there are too many.
  bool begin(const std::string& id, Run run);
  void set_stop(const std::string& id, std::function<void()> stop);
  void set_record(const std::string& id, std::shared_ptr<void> record);  // null: there is none any more
  // The response as it was at first: JSON; empty: there is no such run.
  std::string queued(const std::string& id) const;
  // The same without what its client sent.
  std::string brief(const std::string& id) const;
  // The run as it is now; nothing: there is no such run.
  std::optional<Run> run(const std::string& id) const;
  // Whether the run is neither over nor stopped.
  bool goes_on(const std::string& id) const;
  // Whether one of the tenant's runs has that id.
  bool has(uint64_t tenant, const std::string& id) const;
  // The response as it is for now: JSON. Nothing: none of the tenant's runs has that id.
  std::optional<std::string> find(uint64_t tenant, const std::string& id) const;
  enum class Ending : uint8_t { kCancelled, kForgotten };
  // Stops the run. Returns the response as it is then; nothing: none of the tenant's runs has that id.
  std::optional<std::string> stop(uint64_t tenant, const std::string& id, Ending ending);
  // Removes a run that is over, and returns it.
  std::optional<Run> end(const std::string& id);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Run> runs_;
};

// Begins to make the response, and answers the request with it as it is now, or with its events if the request streams.
void begin_in_background(OpenAiState& state, wire::Exchange& exchange, const Request& request);
// Returns the header line by which the second request shows which response it makes. Its value is secret, so that no
// client can send it, and differs with each process.
std::string token_field(const std::string& id);
// Returns the id of the background response that the exchange makes; empty: it makes none.
std::string background_id(const wire::Exchange& exchange);

// Returns the response `queued`, which may be megabytes of JSON, with another status. `error`: JSON.
std::string with_status(std::string_view queued, std::string_view status, std::string_view error);
// Returns the error (JSON) of an outcome that is not a response.
std::string error_of(const jobs::Outcome& outcome);

}  // namespace weir::openai::responses
