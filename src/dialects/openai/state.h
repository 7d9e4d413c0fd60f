// The state that all parts of the dialect share on one shard.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "bus/bus.h"
#include "dialects/openai/api_error.h"
#include "dialects/openai/openai.h"
#include "wire/call_turns.h"
#include "wire/exchange.h"

namespace weir::openai::responses {
class ResponseSocket;
}

namespace weir::openai {

inline constexpr std::string_view kProtocol = "openai";
// These APIs are read as OpenAI's (translation.h), and have answers and errors of their own.
inline constexpr std::string_view kOllama = "ollama", kAnthropic = "anthropic", kSglang = "sglang", kTgi = "tgi",
                                  kLlamaCpp = "llama.cpp";

struct OpenAiState {
  bus::Bus& bus;
  LoadCounters& load;
  Options options;
  int64_t created = 0;                           // Unix seconds: when this server came up
  base::TimerId forgets = base::TimerId::kNone;  // stored responses whose time is over
  std::map<uint64_t, size_t> followers{};        // by tenant: streams of responses that others make
  wire::Intake* intake = nullptr;                // takes the requests of WebSockets
  std::set<responses::ResponseSocket*> sockets{};
  wire::ShardTurn socket_turn{};  // of all of them
  bool draining = false;          // the server is going
};

// bus::Catalog::resolve(); its errors are those of the parameter "model". Notes the model in the exchange's record.
// "name:latest", as Ollama's lists call a model, is `name` where no model is called so; "tgi", "default" and addresses
// are then the model that requests without a name mean.
struct Found {
  bus::Served* served = nullptr;  // for this turn of the loop
  ApiError error;
};
Found find_model(OpenAiState& state, wire::Exchange& exchange, std::string_view name, bus::Needs needs);
// The model's name in an answer: as the request has it, for clients compare the two; its own for a request without one,
// and in place of Ollama's "name:latest".
std::string_view name_in_answer(std::string_view asked, std::string_view own);
// A model's description of its tokens; null for models of tensors alone.
const msg::TextSpec* tokens_of(const msg::ModelSpec& spec);

// Which prompts of one tenant may share cached beginnings: those of the same `salt` text, that were computed since the
// cache was flushed. 0 without one, where it never was.
uint64_t cache_salt(const OpenAiState& state, std::string_view salt);

// Hexadecimal digits for the id of an answer, at most 32.
std::string random_id(bus::Bus& bus, size_t digits);

// 200 with a JSON body, and how long it took. The body is charged to the exchange, unless somebody is already.
void respond_json(wire::Exchange& exchange, std::string json);
void respond_json(wire::Exchange& exchange, base::Bytes json);
// "openai-processing-ms".
void add_timing(const wire::Exchange& exchange, wire::Fields& fields);

}  // namespace weir::openai
