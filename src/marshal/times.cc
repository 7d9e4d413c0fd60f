#include "marshal/times.h"

#include <algorithm>
#include <array>

#include "base/encoding.h"

namespace weir::marshal {
namespace {

using base::kNever;
using base::Time;
using wire::Span;
using wire::SpanAttribute;

std::string_view finish_reason(msg::Finish finish) {
  if (finish == msg::Finish::kNone) return {};
  return finish == msg::Finish::kLength ? "length" : "stop";
}

// A tenant's number is a keyed hash, so it says who is the same, and not who it is.
std::string tenant_text(uint64_t tenant) {
  std::string bytes;
  for (int shift = 56; shift >= 0; shift -= 8) bytes += char(tenant >> shift & 0xff);
  return base::hex(bytes);
}

// Before the first Call the request's bytes come; then, where that takes a turn of its own, they are decoded.
void add_receive(wire::Trace& trace, Time queued) {
  const Time whole = trace.whole == kNever ? queued : std::min(trace.whole, queued);
  trace.add({.name = "receive", .start = trace.began, .end = whole});
  if (queued > whole) trace.add({.name = "decode", .start = whole, .end = queued});
}

// Since the request began; negative where there is no token. The lane writes the time before it sends the token.
base::Duration first_token(const wire::Trace& trace, const msg::Call& call) {
  if (call.progress.generated_tokens == 0 || call.times.first_token == kNever) return base::Duration(-1);
  return call.times.first_token - trace.began;
}

void add_compute(wire::Trace& trace, const msg::Call& call, Time start, Time end) {
  const msg::Progress& p = call.progress;
  const std::string tenant = call.tenant != 0 ? tenant_text(call.tenant) : std::string();
  std::array<SpanAttribute, 8> all;
  size_t n = 0;
  auto say = [&](std::string_view key, auto value) { all[n++] = {key, value}; };
  say("weir.model.name", std::string_view(call.model));
  say("weir.model.version", std::string_view(call.version));
  if (call.times.batch_rows > 0) say("weir.batch.rows", int64_t(call.times.batch_rows));
  if (!tenant.empty()) say("weir.tenant", std::string_view(tenant));
  if (call.generation) {
    if (p.prompt_tokens > 0) say("gen_ai.usage.input_tokens", int64_t(p.prompt_tokens));
    say("gen_ai.usage.output_tokens", int64_t(p.generated_tokens));
    if (p.cached_tokens > 0) say("gen_ai.usage.cache_read.input_tokens", int64_t(p.cached_tokens));
    if (const auto first = first_token(trace, call); first.count() >= 0)
      say("gen_ai.server.time_to_first_token", std::chrono::duration<double>(first).count());
  }
  trace.add({.name = "compute", .start = start, .end = end, .attributes = {all.data(), n}, .code = p.code});
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
  auto until_end = [&](Time at) { return at == kNever ? finished : std::min(at, finished); };
  const Time started = until_end(t.started), computing = std::max(until_end(t.computing), started);
  if (trace.calls++ == 0) add_receive(trace, t.queued);
  // A Call that has failed in the queue went no further.
  const base::Code queue_code = t.started == kNever ? call.progress.code : base::Code::kOk;
  trace.add({.name = "queue", .start = t.queued, .end = started, .code = queue_code});
  if (t.started == kNever) return;
  trace.add({.name = "stage", .start = started, .end = computing});
  add_compute(trace, call, computing, std::max(finished, computing));
  if (call.generation) count_tokens(trace, call);
}

}  // namespace weir::marshal
