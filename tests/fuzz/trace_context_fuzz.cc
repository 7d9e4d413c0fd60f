// Any bytes as the fields of a trace: what is taken of them keeps the grammar and the bounds, and comes out of another
// reading as it was.
//
//   input = traceparent LF tracestate *( LF tracestate ) NUL baggage *( LF baggage )
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "require.h"
#include "wire/trace_context.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

template <class Take>
void for_each_line(std::string_view text, Take take) {
  while (!text.empty()) {
    size_t end = std::min(text.find('\n'), text.size());
    take(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

void check_state(const std::string& state) {
  require(state.size() <= wire::kMostTraceState, "a tracestate has its bound");
  require(size_t(std::count(state.begin(), state.end(), ',')) < wire::kMostTraceStateMembers, "32 members at most");
  wire::Fields again;
  again.add("tracestate", state);
  require(wire::tracestate_of(again) == state, "what is handed on is read as it was");
}

void check_sampling(const wire::TraceContext& context, const std::string& state) {
  for (double ratio : {0.0, 0.01, 0.5, 1.0}) {
    const uint64_t threshold = wire::sampling_threshold(ratio);
    const bool sampled = wire::sampled_by(threshold, context.trace, state);
    require(ratio > 0 || !sampled, "a ratio of 0 takes nothing");
    require(ratio < 1 || sampled, "a ratio of 1 takes everything");
    const std::string marked = wire::with_threshold(state, threshold);
    require(ratio == 0 || (marked.starts_with("ot=th:") && marked.find(",ot=") == marked.npos), "one ot, in front");
    require(marked.size() <= state.size() + 32, "a threshold is short");
    require(wire::sampled_by(threshold, context.trace, marked) == sampled, "the next node decides alike");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const std::string_view head = text.substr(0, text.find('\0'));
  wire::Fields fields;
  fields.add("traceparent", head.substr(0, head.find('\n')));
  if (head.find('\n') != head.npos)
    for_each_line(head.substr(head.find('\n') + 1), [&](std::string_view line) { fields.add("tracestate", line); });
  if (head.size() < text.size())
    for_each_line(text.substr(head.size() + 1), [&](std::string_view line) { fields.add("baggage", line); });

  const auto context = wire::context_of(fields);
  if (context) {
    const std::string written = context->traceparent();
    require(wire::parse_traceparent(written)->traceparent() == written, "a context is read as it was written");
  }
  const std::string state = wire::tracestate_of(fields);
  check_state(state);
  check_sampling(context.value_or(wire::TraceContext{}), state);
  for (std::string_view key : {"user.id", "a", ""})
    if (auto value = wire::baggage_value(fields, key))
      require(value->size() <= wire::kMostBaggage, "baggage has its bound");
  return 0;
}
