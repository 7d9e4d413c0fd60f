#include "marshal/call_times.h"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <vector>

#include "base/encoding.h"

namespace weir::marshal {
namespace {

using base::kNever;
using base::Time;
using wire::Span;
using wire::SpanAttribute;

std::string_view finish_reason(msg::Finish finish) {
  if (finish == msg::Finish::kNone) return {};
  if (finish == msg::Finish::kFiltered) return "content_filter";
  return finish == msg::Finish::kLength ? "length" : "stop";
}

// The number of a tenant in hexadecimal. It is a keyed hash: equal numbers mean the same tenant, but do not tell which.
std::string tenant_text(uint64_t tenant) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += char(tenant >> shift & 0xff);
  return base::hex(bytes);
}

// Adds the spans before the first Call: `receive`, while the request's bytes come, and `decode`, if it took time.
void add_receive(wire::Trace& trace, Time queued) {
  const Time whole = trace.whole == kNever ? queued : std::min(trace.whole, queued);
  trace.add({.name = "receive", .start = trace.began, .end = whole});
  if (queued > whole) trace.add({.name = "decode", .start = whole, .end = queued});
}

// The name of a model and what a Call of it shared its batch with, as attributes of a span.
class Attributes {
 public:
  template <class Value>
  void add(std::string_view key, Value value) {
    all_[size_++] = {key, value};
  }
  void add_model(const std::string& model, const std::string& version, const msg::Timeline& times) {
    add("weir.model.name", std::string_view(model));
    add("weir.model.version", std::string_view(version));
    if (times.batch_rows > 0) add("weir.batch.rows", int64_t(times.batch_rows));
  }
  std::span<const SpanAttribute> all() const { return {all_.data(), size_}; }

 private:
  std::array<SpanAttribute, 8> all_;
  size_t size_ = 0;
};

// The time from the beginning of the request to its first token; negative if there is none. The lane writes the time
// before it sends the token, so that it can be read here.
base::Duration first_token(const wire::Trace& trace, const msg::Call& call) {
  if (call.progress.generated_tokens == 0 || call.times.first_token == kNever) return base::Duration(-1);
  return call.times.first_token - trace.began;
}

// The work of a Call or of a step of a pipeline, until `finished`. Its spans are children of `parent`.
struct Part {
  const msg::Timeline& times;
  Time finished;
  base::Code code;
  wire::SpanId parent{};
};

// Adds the spans `queue` and `stage`. Returns when computing began; kNever: the Call failed in the queue.
Time add_wait(wire::Trace& trace, const Part& part) {
  const msg::Timeline& t = part.times;
  auto until_end = [&](Time at) { return at == kNever ? part.finished : std::min(at, part.finished); };
  const Time started = until_end(t.started), computing = std::max(until_end(t.computing), started);
  const base::Code code = t.started == kNever ? part.code : base::Code::kOk;
  trace.add({.name = "queue", .start = t.queued, .end = started, .code = code, .parent = part.parent});
  if (t.started == kNever) return kNever;
  trace.add({.name = "stage", .start = started, .end = computing, .parent = part.parent});
  return computing;
}

void add_compute(wire::Trace& trace, const Part& part, Time start, std::span<const SpanAttribute> attributes) {
  trace.add({.name = "compute",
             .start = start,
             .end = std::max(part.finished, start),
             .attributes = attributes,
             .code = part.code,
             .parent = part.parent});
}

void add_tokens(Attributes& attributes, const wire::Trace& trace, const msg::Call& call) {
  const msg::Progress& p = call.progress;
  if (p.prompt_tokens > 0) attributes.add("gen_ai.usage.input_tokens", int64_t(p.prompt_tokens));
  attributes.add("gen_ai.usage.output_tokens", int64_t(p.generated_tokens));
  if (p.cached_tokens > 0) attributes.add("gen_ai.usage.cache_read.input_tokens", int64_t(p.cached_tokens));
  if (const auto first = first_token(trace, call); first.count() >= 0)
    attributes.add("gen_ai.server.time_to_first_token", std::chrono::duration<double>(first).count());
}

void add_step(wire::Trace& trace, const msg::StepTimes& step, const wire::SpanId& parent, wire::SpanId& id) {
  Attributes attributes;
  attributes.add("weir.step.name", std::string_view(step.name));
  attributes.add_model(step.model, step.version, step.times);
  id = trace.add({.name = step.name,
                  .start = step.times.queued,
                  .end = step.times.finished,
                  .attributes = attributes.all(),
                  .code = step.code,
                  .parent = parent});
  if (step.is_pipeline) return;
  const Part part{step.times, step.times.finished, step.code, id};
  if (const Time computing = add_wait(trace, part); computing != kNever) add_compute(trace, part, computing, {});
}

// Adds one span for the whole pipeline, below it one for each step, and below these the spans of the step's work.
void add_pipeline(wire::Trace& trace, const msg::Call& call) {
  const msg::PipelineSteps& steps = *call.steps;
  const std::string tenant = call.tenant != 0 ? tenant_text(call.tenant) : std::string();
  Attributes attributes;
  attributes.add_model(call.model, call.version, {});
  if (!tenant.empty()) attributes.add("weir.tenant", std::string_view(tenant));
  if (steps.left_out > 0) attributes.add("weir.steps.left_out", int64_t(steps.left_out));
  const wire::SpanId whole = trace.add({.name = "pipeline",
                                        .start = call.times.queued,
                                        .end = call.times.finished,
                                        .attributes = attributes.all(),
                                        .code = call.progress.code});
  std::vector<wire::SpanId> ids(steps.all.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const msg::StepTimes& step = steps.all[i];
    add_step(trace, step, step.parent == msg::StepTimes::kNone ? whole : ids[step.parent], ids[i]);
  }
}

void count_tokens(wire::Trace& trace, const msg::Call& call) {
  const msg::Progress& p = call.progress;
  trace.input_tokens += p.prompt_tokens, trace.cached_tokens += p.cached_tokens;
  trace.output_tokens += p.generated_tokens;
  if (trace.first_token.count() < 0) trace.first_token = first_token(trace, call);
  if (p.finish != msg::Finish::kNone) trace.finish = finish_reason(p.finish);
}

}  // namespace

void add_call_spans(wire::Trace& trace, const msg::Call& call, Time finished) {
  const msg::Timeline& t = call.times;
  if (t.queued == kNever || finished == kNever) return;
  if (trace.calls++ == 0) add_receive(trace, t.queued);
  const Part part{t, finished, call.progress.code};
  const Time computing = add_wait(trace, part);
  if (computing == kNever) return;
  const std::string tenant = call.tenant != 0 ? tenant_text(call.tenant) : std::string();
  Attributes attributes;
  attributes.add_model(call.model, call.version, t);
  if (!tenant.empty()) attributes.add("weir.tenant", std::string_view(tenant));
  if (call.generation) add_tokens(attributes, trace, call);
  add_compute(trace, part, computing, attributes.all());
  if (call.generation) count_tokens(trace, call);
}

void add_ended_call_spans(wire::Trace& trace, const msg::Call& call) {
  const msg::Timeline& t = call.times;
  if (!call.steps || call.steps->all.empty() || t.queued == kNever || t.finished == kNever)
    return add_call_spans(trace, call, t.finished);
  if (trace.calls++ == 0) add_receive(trace, t.queued);
  add_pipeline(trace, call);
}

}  // namespace weir::marshal
