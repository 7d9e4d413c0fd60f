// GenerationParams: how a request wants its text made. One table says what each parameter is called, its type and its
// range, for every protocol; the adapters read a parameter from JSON, from a protobuf field, or from a ParamValue.
//
// A parameter that a request does not give has the model's value (TextSpec::defaults, from generation_config.json), in
// Salience that of a new msg::Sampling. Reference: the names are those of OpenAI and vLLM; `triton` is what Triton's
// TensorRT-LLM models say beside them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/status.h"
#include "marshal/field_reader.h"
#include "marshal/pb_wire.h"
#include "msg/call.h"
#include "msg/generate.h"
#include "msg/spec.h"
#include "msg/token_constraint.h"

namespace weir::marshal {

struct GenerationParams {
  using Bias = std::vector<std::pair<uint32_t, float>>;  // token id, what is added to its logit

  std::optional<uint32_t> max_tokens, min_tokens;
  std::optional<uint32_t> top_logprobs;  // likeliest tokens beside each
  std::optional<float> temperature, top_p, min_p, presence_penalty, frequency_penalty, repetition_penalty;
  std::optional<int64_t> top_k;  // -1 and 0: all
  std::optional<uint64_t> seed;  // a negative one as its two's complement
  Bias logit_bias;
  std::vector<std::string> stop;
  std::vector<uint32_t> stop_ids;
  bool ignore_eos = false;
  bool include_stop = false;
  bool skip_special = true;
  std::optional<msg::StructuredOutput> structured;  // the form of the text
  // As the client wrote it: errors that come once the prompt's length is known name it. A literal.
  std::string_view max_tokens_name = "max_tokens";
  bool cut_max_tokens = false;  // to what the context has left, where it is more
};

enum class Protocol : uint8_t {
  kOpenAi,
  kTriton,     // …/generate, and the parameters and `sampling_parameters` of tensor requests; numbers may be strings
  kSalience,   // GenerateRequest in proto/salience.proto
  kEvergreen,  // GenerateConfig in proto/evergreen_config.proto
  kModelFile,  // generation_config.json
};

struct ParamRow {
  template <class T>
  using Of = T GenerationParams::*;
  struct Field {
    uint32_t number = 0;         // 0: the message has no such field
    std::string_view name = {};  // empty: the row's
  };

  using Member =
      std::variant<Of<std::optional<uint32_t>>, Of<std::optional<int64_t>>, Of<std::optional<uint64_t>>,
                   Of<std::optional<float>>, Of<bool>, Of<std::vector<std::string>>, Of<std::vector<uint32_t>>,
                   Of<GenerationParams::Bias>, Of<std::optional<msg::StructuredOutput>>>;

  std::string_view name;
  Member member;       // what it sets, whose type is the parameter's
  double least, most;  // of a number, or of each bias; of a list: how many entries
  std::string_view triton = {};
  Field salience = {}, evergreen = {};
  bool model_file = false;
  double openai_most = most;  // where OpenAI's reference has a narrower range
  bool named = true;          // false: protocols of names have several for it, which they read themselves

  double most_of(Protocol protocol) const { return protocol == Protocol::kOpenAi ? openai_most : most; }
  Field field(Protocol protocol) const {
    Field field = protocol == Protocol::kSalience ? salience : protocol == Protocol::kEvergreen ? evergreen : Field{};
    if (field.name.empty()) field.name = name;
    return field;
  }
};

// A byte of an answer costs a comparison with each of the stop strings; their tables take five bytes for each of
// theirs.
inline constexpr size_t kMaxStops = 64, kMaxStopBytes = 4096;  // bytes of all of them
inline constexpr size_t kMaxStopIds = 64, kMaxBiases = 1024;
inline constexpr double kMaxU32 = 4294967295;

struct GenerationParamTable {
  using P = GenerationParams;
  static constexpr ParamRow kTopLogprobs{
      "top_logprobs", &P::top_logprobs, 0, 128, {}, {7, "logprob_top_k"}, {15}, false, 20, false};
  static constexpr ParamRow kRows[] = {
      {"max_tokens", &P::max_tokens, 0, kMaxU32, "max_new_tokens", {5}, {1}},
      {"min_tokens", &P::min_tokens, 0, kMaxU32, {}, {}, {12}},
      {"temperature", &P::temperature, 0, 100, {}, {9}, {2}, true, 2},  // 0: the most likely token
      {"top_p", &P::top_p, 0, 1, {}, {10}, {3}, true},                  // 0: the most likely token
      {"top_k", &P::top_k, -1, kMaxU32, {}, {11}, {4}, true},
      {"min_p", &P::min_p, 0, 1, {}, {}, {5}, true},
      {"presence_penalty", &P::presence_penalty, -2, 2, {}, {}, {6}},
      {"frequency_penalty", &P::frequency_penalty, -2, 2, {}, {}, {7}},
      {"repetition_penalty", &P::repetition_penalty, 0.001, 100, {}, {}, {8}, true},
      {"seed", &P::seed, -0x1p63, 0x1p64, "random_seed", {}, {9}},  // whole, of 64 bits
      {"logit_bias", &P::logit_bias, -100, 100},                    // {"<token id>": bias}, kMaxBiases of them
      {"stop", &P::stop, 0, kMaxStops, "stop_words", {1000, "stop_strings"}, {10}},  // none of them empty
      {"stop_token_ids", &P::stop_ids, 0, kMaxStopIds, {}, {12}},
      {"ignore_eos", &P::ignore_eos, 0, 1, {}, {}, {11}},
      {"include_stop_str_in_output", &P::include_stop, 0, 1},
      {"skip_special_tokens", &P::skip_special, 0, 1},
      // OpenAI's, vLLM's and llama.cpp's names for the form of the text: structured_params.h.
      {"response_format", &P::structured, 0, 0},
      {"structured_outputs", &P::structured, 0, 0},
      {"guided_json", &P::structured, 0, 0},
      {"guided_regex", &P::structured, 0, 0},
      {"guided_choice", &P::structured, 0, 0},
      {"guided_grammar", &P::structured, 0, 0},
      {"json_schema", &P::structured, 0, 0},
      {"grammar", &P::structured, 0, 0},
      kTopLogprobs,
  };
};
inline constexpr std::span<const ParamRow> kGenerationParams{GenerationParamTable::kRows};

// The row of a JSON member, of a ParamValue, or of a protobuf field; null where the protocol has no such parameter.
const ParamRow* find_param(Protocol protocol, std::string_view name);
const ParamRow* find_param(Protocol protocol, uint32_t field);

// Whether there is room for one more stop string behind those, in number and bytes.
base::Status check_stop(const std::vector<std::string>& stops, std::string_view name, std::string_view one);

// Reads the parameter's value. What is refused is refused under `name`, which the client wrote: "top_p must be >= 0 and
// <= 1, not 1.5". JSON: consumes the value; null leaves `out` as it is; false where it is refused. ParamValue: also
// text that holds the number, and text that holds the list or object in JSON. Protobuf: the field that `reader` is at;
// repeated fields add to the list, and one of another wire type is passed over, as protobuf has it.
bool read_param(FieldReader& reader, Protocol protocol, const ParamRow& row, std::string_view name,
                GenerationParams& out);
base::Status read_param(const msg::ParamValue& value, const ParamRow& row, std::string_view name,
                        GenerationParams& out);
base::Status read_param(const PbReader& reader, Protocol protocol, const ParamRow& row, GenerationParams& out);

// true, false, 1, 0, or one of these as text.
base::Status read_flag(const msg::ParamValue& value, std::string_view name, bool& out);

// A repeated uint32, packed or one by one, onto `out`, which gets at most `most` entries. Reserves no more than the
// message holds.
base::Status read_ids(const PbReader& reader, std::string_view name, size_t most, std::vector<uint32_t>& out);

// A Status, and the parameter that it is about, as the client calls it.
struct ParamError {
  base::Status status;
  std::string_view param;  // a literal
};

// Lays the request's values over those of `generation`: sampling, stop_ids, ignore_eos, min_tokens, max_tokens.
void apply(const GenerationParams& params, msg::Generation& generation);
// The same over the model's defaults. Errors: INVALID_ARGUMENT where an id is not in the vocabulary.
ParamError apply(const GenerationParams& params, const msg::TextSpec& spec, msg::Generation& generation);

// Sets max_tokens, with the prompt in place: what was asked for, which must fit (OUT_OF_RANGE) unless it may be cut, or
// `usual`, as far as the context goes. Also OUT_OF_RANGE: a prompt that fills the context. INVALID_ARGUMENT: an empty
// prompt, ids that are not in the vocabulary, min_tokens above max_tokens. An error about the prompt has the param
// "prompt".
ParamError apply_length(const GenerationParams& params, const msg::TextSpec& spec, uint32_t usual,
                        msg::Generation& generation);

// Errors: INVALID_ARGUMENT where min_tokens is above max_tokens.
ParamError check_min_tokens(const GenerationParams& params, const msg::Generation& generation);

// The tokens that end the text: the stop ids, and the model's own end unless it is to be ignored.
std::vector<uint32_t> end_ids(const GenerationParams& params, const msg::TextSpec& spec);

}  // namespace weir::marshal
