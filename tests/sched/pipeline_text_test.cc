// Pipelines with models of text: a node answers once.
#include <gtest/gtest.h>

#include "calls.h"
#include "sched/pipeline.h"

namespace weir::sched {
namespace {

using msg::DType;

// Writes down what a node is asked, and answers on the caller's thread.
struct TextModel final : msg::Inbox {
  std::vector<std::string> asked;
  std::vector<msg::Event> script;

  void put(msg::Call* call) override {
    std::string text = "tenant " + std::to_string(call->tenant);
    if (call->limiter) text += " | limited";
    for (const auto& t : call->inputs) text += " | " + t.name;
    for (const auto& [name, value] : call->parameters) text += " | with " + name;
    asked.push_back(text);
    for (const auto& event : script) call->home->post_here({call, msg::Event(event)});
  }
};

msg::Event text(std::string words, bool final) {
  msg::Outputs out;
  out.tensors.push_back(strings("text_output", {1}, {std::move(words)}));
  out.final = final;
  return {std::move(out)};
}

// text_input, stream -> a model of text -> text_output
struct TextLab {
  std::shared_ptr<bus::Served> node = std::make_shared<bus::Served>();
  TextModel* text_model = new TextModel;
  bus::ModelStats stats;
  Answers home;
  std::unique_ptr<msg::Inbox> pipeline;

  TextLab() {
    node->spec.name = "chat";
    node->spec.text = std::make_shared<msg::TextSpec>();
    node->inbox.reset(text_model);
    PipelinePlan plan;
    plan.slots = 3;
    plan.inputs = {{"text_input", 0}, {"stream", 1, true}};
    plan.nodes.push_back({"say", node, {{"text_input", 0}, {"stream", 1, true}}, {{"text_output", 2}}});
    plan.outputs = {{"text_output", 2}};
    pipeline = make_pipeline(std::move(plan), stats);
  }
  std::string ask(msg::Call& call) {
    call.home = &home;
    call.inputs.push_back(strings("text_input", {1}, {"hi"}));
    call.inputs.push_back({"stream", DType::kBool, {1}, base::Bytes::copy_of("\1")});
    pipeline->put(&call);
    if (home.mail.size() != 1) return std::to_string(home.mail.size()) + " events";
    auto& event = home.mail[0].event;
    if (auto* failed = std::get_if<msg::Failed>(&event.what)) return failed->status.text;
    std::string out;
    msg::for_each_string(std::get<msg::Outputs>(event.what).tensors.at(0).data.view(), [&](auto s) { out += s; });
    return out;
  }
};

TEST(PipelineText, AModelOfTextIsNotAskedForPieces) {
  TextLab lab;
  lab.text_model->script = {text("one two", true)};
  msg::Call call;
  call.tenant = 7;
  call.parameters = {{"stream", true}, {"max_tokens", int64_t(3)}};
  EXPECT_EQ(lab.ask(call), "one two");
  EXPECT_EQ(lab.text_model->asked, std::vector<std::string>{"tenant 7 | text_input | with max_tokens"});
}

TEST(PipelineText, TheTokensOfANodeAreChargedToTheCallsLimiter) {
  TextLab lab;
  lab.text_model->script = {text("one", true)};
  msg::Call call;
  call.limiter = std::make_shared<base::UsageLimiter>("k", base::UsageLimits{.tokens_per_minute = 1});
  EXPECT_EQ(lab.ask(call), "one");
  EXPECT_EQ(lab.text_model->asked, std::vector<std::string>{"tenant 0 | limited | text_input"});
}

TEST(PipelineText, ANodeThatAnswersInPiecesAllTheSameIsRefused) {
  TextLab lab;
  lab.text_model->script = {text("one", false), text("two", true)};
  msg::Call call, again;
  EXPECT_EQ(lab.ask(call), "node 'say': the model answered more than once");
  lab.home.mail.clear();
  lab.text_model->script = {text("one", true)};
  EXPECT_EQ(lab.ask(again), "one") << "and the next Call knows nothing of it";
}

}  // namespace
}  // namespace weir::sched
