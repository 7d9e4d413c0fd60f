// POST …/generate and …/generate_stream: one JSON object in, one out, or one as Server-Sent Event for each answer
// (Triton's generate extension, and the Open Inference Protocol's "Generate").
//
// For a model of tensors each member that has an input's name becomes that input (a value, or a list of them, shaped as
// the input is declared and otherwise as it is written), and every other member a parameter; members of "parameters"
// are parameters, too. The answer has each output under its name, a single element as a plain value.
//
// A model of text takes
//   text_input (string), parameters {max_tokens = 20, temperature, top_p, stop, …, details} – those of
//   marshal/generation_params.h, also beside text_input –, sampling_parameters (the same as JSON in a string),
//   bad_words (a string or a list of words that are single tokens), end_id (the token that ends the text in place of
//   the model's own; -1: nothing does), pad_id (read and not used: nothing is padded here),
//   exclude_input_in_output (false: the answer begins with the prompt), id
// and answers {["id",]"model_name","model_version","text_output"[,"details":{"finish_reason":"length"|"eos_token"|
// "stop_sequence","logprobs":[{"id","text","logprob","special"}]}]}; streamed, each event has what is new, details of
// its one "token", and the last one the finish_reason. There is no [DONE]. A failure in mid-stream is {"error":…}.
//
// GET …/generate_stream?request=… is for EventSource (event_stream.h): the same object in the query. It can be resumed
// where its answer is the same each time: of a model of tensors, of text at temperature 0 or with a seed.
#pragma once

#include <string>

#include "dialects/oip/event_stream.h"
#include "dialects/oip/inference.h"
#include "dialects/oip/state.h"
#include "wire/router.h"

namespace weir::oip {

void generate(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);
void generate_stream(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args);

enum class Delivery : uint8_t { kWhole, kStream };

// generate_tensors.cc
void generate_tensors(OipState& state, wire::Exchange& exchange, const wire::PathArgs& args, Delivery delivery);
// generate_text.cc
void generate_text(OipState& state, wire::Exchange& exchange, bus::Served& served, Delivery delivery);

// generate.cc: what both have in common.
// A value as a parameter: true, false, number or string.
bool read_parameter(marshal::JsonCursor& json, msg::ParamValue& out);
// `{"id":…,"model_name":…,"model_version":…`; without the id where the request had none.
std::string reply_head(std::string_view id, std::string_view model, std::string_view version);

}  // namespace weir::oip
