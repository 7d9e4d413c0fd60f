// What all parts of the dialect share on one shard.
#pragma once

#include <string>
#include <string_view>

#include "bus/bus.h"
#include "dialects/openai/openai.h"
#include "dialects/openai/refusal.h"
#include "wire/exchange.h"

namespace weir::openai {

inline constexpr std::string_view kProtocol = "openai";

struct House {
  bus::Bus& bus;
  Load& load;
  Options options;
  int64_t created = 0;  // Unix seconds: when this server came up
};

// The model that a request names ("" = the default), which must be one of text. Notes it in the ledger. Errors:
// 404 model_not_found, 400 for models of tensors alone.
struct Found {
  bus::Served* served = nullptr;  // for this turn of the loop
  Refusal refusal;
};
Found find_model(House& house, wire::Exchange& exchange, const std::string& name);

// 200 with a JSON body, and how long it took.
void respond_json(wire::Exchange& exchange, std::string json);
// "openai-processing-ms".
void add_timing(const wire::Exchange& exchange, wire::Fields& fields);

}  // namespace weir::openai
