// Responses that nobody waits for (`background: true`): the client has the response's id at once, asks for it until it
// is over, and may cancel it.
//
// The request is put to the router once more, by an Exchange without a connection, under whoever asked and as one more
// of his requests; the code that answers live ones makes the response and stores it. Where that is refused for now
// (429, 503), it waits and is tried again, for openai.response_ttl. Until it is over it is known here, and to the
// journal (put_off.h), by which it outlives its process. Without one it ends with that.
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

// Those under way, of all shards. Any thread.
class BackgroundResponses {
 public:
  static constexpr size_t kMost = 256;  // of all; a tenant has a quarter

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
  // As it is now. Nothing: there is no such run.
  std::optional<Run> run(const std::string& id) const;
  // Neither over nor stopped.
  bool goes_on(const std::string& id) const;
  // Whether one of the tenant's runs has that id.
  bool has(uint64_t tenant, const std::string& id) const;
  // The response as it is for now: JSON. Nothing: none of the tenant's runs has that id.
  std::optional<std::string> find(uint64_t tenant, const std::string& id) const;
  enum class Ending : uint8_t { kCancelled, kForgotten };
  // Stops it; the response as it is then.
  std::optional<std::string> stop(uint64_t tenant, const std::string& id, Ending ending);
  // It is over.
  std::optional<Run> end(const std::string& id);

 private:
  mutable std::mutex mutex_;
  std::map<std::string, Run> runs_;
};

// Begins the request's response and answers with it as it is now, or with its events.
void begin_in_background(OpenAiState& state, wire::Exchange& exchange, const Request& request);
// The field by which a second request shows which response it makes: a line of a head. Nobody else can show it, nor
// another process.
std::string token_field(const std::string& id);
// The id of the response that the exchange makes; empty: it is nobody's in the background.
std::string background_id(const wire::Exchange& exchange);

// A response that is not over, which may be megabytes, with another status. `error`: JSON.
std::string with_status(std::string_view queued, std::string_view status, std::string_view error);
// Why an answer that is no response is none: JSON.
std::string error_of(const jobs::Outcome& outcome);

}  // namespace weir::openai::responses
