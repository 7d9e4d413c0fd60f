// What all parts of the dialect share on one shard.
#pragma once

#include <string>
#include <string_view>

#include "bus/bus.h"
#include "dialects/openai/api_error.h"
#include "dialects/openai/openai.h"
#include "marshal/secrets.h"
#include "wire/exchange.h"

namespace weir::openai {

inline constexpr std::string_view kProtocol = "openai";

struct OpenAiState {
  bus::Bus& bus;
  Load& load;
  Options options;
  int64_t created = 0;      // Unix seconds: when this server came up
  marshal::Secrets keys{};  // those of the options
};

// What a request wants of a model: that it makes tokens, or that it takes them: encoders do as well.
enum class Wants : uint8_t { kToMake, kToTake };

// The model that a request names ("" = the default). Notes it in the ledger. Errors: 404 model_not_found, 400 for
// models of which that cannot be had.
struct Found {
  bus::Served* served = nullptr;  // for this turn of the loop
  ApiError error;
};
Found find_model(OpenAiState& state, wire::Exchange& exchange, const std::string& name, Wants wants);
// What a model says of its tokens; null for models of tensors alone.
const msg::TextSpec* tokens_of(const msg::ModelSpec& spec, Wants wants = Wants::kToTake);

// 200 with a JSON body, and how long it took.
void respond_json(wire::Exchange& exchange, std::string json);
// "openai-processing-ms".
void add_timing(const wire::Exchange& exchange, wire::Fields& fields);

}  // namespace weir::openai
