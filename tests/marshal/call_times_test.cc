// The spans of Calls of a request that is traced.
#include "marshal/call_times.h"

#include <gtest/gtest.h>

#include <map>

namespace weir::marshal {
namespace {

using namespace std::chrono_literals;
using base::Code;
using base::kNever;
using base::Time;

Time at(int ms) { return Time(std::chrono::milliseconds(ms)); }

std::string shown(const wire::SpanValue& value) {
  if (auto* text = std::get_if<std::string_view>(&value)) return std::string(*text);
  if (auto* whole = std::get_if<int64_t>(&value)) return std::to_string(*whole);
  if (auto* real = std::get_if<double>(&value)) return std::to_string(*real);
  return std::get<bool>(value) ? "true" : "false";
}

// "queue 5-7", with the code of an error and the parent's name behind it; attributes by "compute key".
struct Spans final : wire::SpanSink {
  wire::SpanId add(wire::Trace&, const wire::Span& span) override {
    auto ms = [](Time t) { return std::to_string(t.time_since_epoch() / 1ms); };
    std::string text = std::string(span.name) + " " + ms(span.start) + "-" + ms(span.end);
    if (span.code != Code::kOk) text += " " + std::string(base::name(span.code));
    if (span.parent[0] > 0) text += " in " + names.at(size_t(span.parent[0] - 1));
    all.push_back(text);
    names.emplace_back(span.name);
    for (const auto& each : span.attributes)
      attributes[std::string(span.name) + " " + std::string(each.key)] = shown(each.value);
    wire::SpanId id{};
    id[0] = uint8_t(all.size());
    return id;
  }
  std::vector<std::string> all, names;
  std::map<std::string, std::string> attributes;
};
using Texts = std::vector<std::string>;

// A request that began at 1 ms, with a Call that was queued at 5, started at 7, computed from 8 on, and ended at 12.
struct Traced {
  Traced() {
    trace.sink = &spans, trace.began = at(1), trace.whole = at(3);
    call.model = "add", call.version = "2";
    call.times.queued = at(5), call.times.started = at(7), call.times.computing = at(8), call.times.finished = at(12);
  }
  std::string attribute(const std::string& key) const {
    auto found = spans.attributes.find(key);
    return found == spans.attributes.end() ? "none" : found->second;
  }
  Spans spans;
  wire::Trace trace;
  msg::Call call;
};

TEST(CallSpans, SayWhereTheTimeOfARequestWent) {
  Traced t;
  t.call.times.batch_rows = 4;
  t.call.tenant = 0x0123456789abcdef;
  add_ended_call_spans(t.trace, t.call);
  EXPECT_EQ(t.spans.all, (Texts{"receive 1-3", "decode 3-5", "queue 5-7", "stage 7-8", "compute 8-12"}));
  EXPECT_EQ(t.attribute("compute weir.model.name"), "add");
  EXPECT_EQ(t.attribute("compute weir.model.version"), "2");
  EXPECT_EQ(t.attribute("compute weir.batch.rows"), "4");
  EXPECT_EQ(t.attribute("compute weir.tenant"), "0123456789abcdef");
  EXPECT_EQ(t.attribute("compute gen_ai.usage.output_tokens"), "none") << "of tensors";
  EXPECT_EQ(t.trace.calls, 1u);
  add_ended_call_spans(t.trace, t.call);
  EXPECT_EQ(t.spans.all.size(), 8u) << "a request is received once";
  EXPECT_EQ(t.trace.calls, 2u);
}

TEST(CallSpans, LeaveOutWhatIsNotKnown) {
  Traced t;
  t.trace.whole = kNever;
  add_call_spans(t.trace, t.call, at(12));
  EXPECT_EQ(t.spans.all.at(0), "receive 1-5");
  EXPECT_EQ(t.spans.all.at(1), "queue 5-7") << "what is decoded as it comes takes no turn of its own";
  EXPECT_EQ(t.attribute("compute weir.batch.rows"), "none");
  EXPECT_EQ(t.attribute("compute weir.tenant"), "none");
  Traced late;
  late.trace.whole = at(6);
  add_call_spans(late.trace, late.call, at(12));
  EXPECT_EQ(late.spans.all.at(0), "receive 1-5") << "the body's end came after the Call";
  Traced unqueued;
  unqueued.call.times.queued = kNever;
  add_ended_call_spans(unqueued.trace, unqueued.call);
  unqueued.call.times.queued = at(5), unqueued.call.times.finished = kNever;
  add_ended_call_spans(unqueued.trace, unqueued.call);
  EXPECT_EQ(unqueued.spans.all, Texts{});
  EXPECT_EQ(unqueued.trace.calls, 0u);
}

TEST(CallSpans, OfACallThatFailedEndWhereItFailed) {
  Traced waits;
  waits.call.progress.code = Code::kUnavailable;
  waits.call.times.started = waits.call.times.computing = kNever;
  add_ended_call_spans(waits.trace, waits.call);
  EXPECT_EQ(waits.spans.all, (Texts{"receive 1-3", "decode 3-5", "queue 5-12 UNAVAILABLE"}));
  Traced runs;
  runs.call.progress.code = Code::kInternal;
  runs.call.times.computing = kNever;
  add_ended_call_spans(runs.trace, runs.call);
  EXPECT_EQ(runs.spans.all.at(2), "queue 5-7");
  EXPECT_EQ(runs.spans.all.at(3), "stage 7-12");
  EXPECT_EQ(runs.spans.all.at(4), "compute 12-12 INTERNAL");
  Traced still;  // its Inbox has it, and has written later times already
  add_call_spans(still.trace, still.call, at(6));
  EXPECT_EQ(still.spans.all.at(2), "queue 5-6");
  EXPECT_EQ(still.spans.all.at(3), "stage 6-6");
  EXPECT_EQ(still.spans.all.at(4), "compute 6-6");
}

TEST(CallSpans, OfASequenceCountItsTokens) {
  Traced t;
  t.call.generation = std::make_unique<msg::Generation>();
  t.call.progress = {.prompt_tokens = 9, .cached_tokens = 4, .generated_tokens = 3, .finish = msg::Finish::kLength};
  t.call.times.first_token = at(10);
  add_ended_call_spans(t.trace, t.call);
  EXPECT_EQ(t.attribute("compute gen_ai.usage.input_tokens"), "9");
  EXPECT_EQ(t.attribute("compute gen_ai.usage.output_tokens"), "3");
  EXPECT_EQ(t.attribute("compute gen_ai.usage.cache_read.input_tokens"), "4");
  EXPECT_EQ(t.attribute("compute gen_ai.server.time_to_first_token"), "0.009000");
  EXPECT_EQ(t.trace.first_token, 9ms);
  EXPECT_EQ(t.trace.finish, "length");
  t.call.progress = {.prompt_tokens = 1, .cached_tokens = 0, .generated_tokens = 1, .finish = msg::Finish::kEos};
  t.call.times.first_token = at(11);
  add_ended_call_spans(t.trace, t.call);
  EXPECT_EQ(t.trace.input_tokens, 10u);
  EXPECT_EQ(t.trace.cached_tokens, 4u);
  EXPECT_EQ(t.trace.output_tokens, 4u);
  EXPECT_EQ(t.trace.first_token, 9ms) << "of the first sequence";
  EXPECT_EQ(t.trace.finish, "stop") << "of the last one";
}

TEST(CallSpans, OfASequenceWithoutATokenSayNothingOfOne) {
  Traced t;
  t.call.generation = std::make_unique<msg::Generation>();
  t.call.times.first_token = at(10);  // the lane has it; the home shard has not
  add_ended_call_spans(t.trace, t.call);
  for (const char* key :
       {"gen_ai.usage.input_tokens", "gen_ai.usage.cache_read.input_tokens", "gen_ai.server.time_to_first_token"})
    EXPECT_EQ(t.attribute(std::string("compute ") + key), "none") << key;
  EXPECT_EQ(t.attribute("compute gen_ai.usage.output_tokens"), "0");
  EXPECT_LT(t.trace.first_token.count(), 0);
  EXPECT_EQ(t.trace.finish, "");
  t.call.progress.generated_tokens = 1, t.call.times.first_token = kNever;
  add_ended_call_spans(t.trace, t.call);
  EXPECT_LT(t.trace.first_token.count(), 0);
}

msg::StepTimes step(std::string name, int from, int to) {
  msg::StepTimes made;
  made.name = std::move(name), made.model = "m", made.version = "1";
  made.times.queued = at(from), made.times.started = at(from + 1), made.times.computing = at(from + 1);
  made.times.finished = at(to);
  return made;
}

TEST(CallSpans, OfAPipelineAreThoseOfItsSteps) {
  Traced t;
  t.call.tenant = 0x11;
  t.call.progress.code = Code::kInternal;
  t.call.steps = std::make_unique<msg::PipelineSteps>();
  auto outer = step("outer", 5, 9);
  outer.is_pipeline = true;
  auto inner = step("inner", 5, 9);
  inner.parent = 0;
  inner.times.batch_rows = 3;
  auto last = step("last", 9, 12);
  last.code = Code::kInternal;
  last.times.started = kNever;
  t.call.steps->all = {outer, inner, last};
  t.call.steps->left_out = 2;
  add_ended_call_spans(t.trace, t.call);
  EXPECT_EQ(t.spans.all,
            (Texts{"receive 1-3", "decode 3-5", "pipeline 5-12 INTERNAL", "outer 5-9 in pipeline", "inner 5-9 in outer",
                   "queue 5-6 in inner", "stage 6-6 in inner", "compute 6-9 in inner", "last 9-12 INTERNAL in pipeline",
                   "queue 9-12 INTERNAL in last"}));
  EXPECT_EQ(t.attribute("pipeline weir.steps.left_out"), "2");
  EXPECT_EQ(t.attribute("pipeline weir.tenant"), "0000000000000011");
  EXPECT_EQ(t.attribute("pipeline weir.batch.rows"), "none");
  EXPECT_EQ(t.attribute("inner weir.step.name"), "inner");
  EXPECT_EQ(t.attribute("inner weir.model.name"), "m");
  EXPECT_EQ(t.attribute("inner weir.batch.rows"), "3");
  Traced whole;
  whole.call.steps = std::make_unique<msg::PipelineSteps>();
  whole.call.steps->all = {step("only", 5, 9)};
  add_ended_call_spans(whole.trace, whole.call);
  EXPECT_EQ(whole.attribute("pipeline weir.steps.left_out"), "none");
  EXPECT_EQ(whole.attribute("pipeline weir.tenant"), "none");
  Traced empty;
  empty.call.steps = std::make_unique<msg::PipelineSteps>();
  add_ended_call_spans(empty.trace, empty.call);
  EXPECT_EQ(empty.spans.all.size(), 5u) << "as of one model";
}

}  // namespace
}  // namespace weir::marshal
