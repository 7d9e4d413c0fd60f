#include "dialects/openai/responses/compaction.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "base/encoding.h"
#include "dialects/openai/responses/input.h"
#include "dialects/openai/responses/output_item.h"
#include "dialects/openai/task.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

constexpr std::array<std::string_view, 4> kTaken{"model", "input", "instructions", "previous_response_id"};
constexpr std::array<std::string_view, 5> kPassed{"prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
                                                  "service_tier", "tools"};
constexpr std::string_view kAsk =
    "Summarize our conversation so far for a reader who has nothing but my messages and your summary, and has to go on "
    "with it. Say what was decided, what was done and found out, which names and values matter, and what is still to "
    "be done. Answer with the summary alone.";
constexpr uint32_t kMostTokens = 1024;  // of a summary
constexpr std::string_view kSeal = "weir-summary 1\n";

// The user's messages of the conversation, as items: JSON, with commas between. The last turn is the question.
std::string user_items(const Request& request, const std::string& id) {
  OrderedJson messages = OrderedJson::parse(request.messages);
  if (request.instructed) messages.erase(0);
  std::string turns(request.earlier.view()), own = messages.dump();
  if (!turns.empty()) turns += ',';
  turns += std::string_view(own).substr(1, own.size() - 2);
  std::string out;
  for (const auto& [item_id, json] : input_items(id, turns, "{}"))
    if (json.find(R"("role":"user")") != json.npos) (out += out.empty() ? "" : ",") += json;
  return out;
}

class CompactionAnswer final : public Answer {
 public:
  CompactionAnswer(OpenAiState& state, Exchange& exchange, Request request, std::string id, std::string items)
      : Answer(state, exchange, Kind::kChat, std::move(request)), id_(std::move(id)), items_(std::move(items)) {}

 private:
  void grew(Choice& choice) override {
    if (!charge(choice)) fail(wire::no_room_for_answer());
  }
  void ended(Choice&) override {}
  void failed(const base::Status& status) override { respond(exchange_, refuse(status)); }
  void over() override {
    if (!gathered_.charge_text()) return failed(wire::no_room_for_answer());
    const std::string& summary = choices_.front().delta.text;
    if (summary.empty()) return failed(base::failure(base::Code::kInternal, "the model has written no summary"));
    const auto since = state_.bus.env().wall().time_since_epoch();
    std::string out = "{\"id\":\"" + id_ + "\",\"object\":\"response.compaction\",\"created_at\":";
    out += std::to_string(std::chrono::duration_cast<std::chrono::seconds>(since).count()) + ",\"output\":[" + items_;
    if (!items_.empty()) out += ',';
    out += R"({"type":"compaction","id":"cmp_)" + random_id(kIdDigits) + "\"";
    add_string(out, "encrypted_content", sealed_summary(summary));
    out += "}],\"usage\":";
    write_response_usage(out, usage());
    finish_written(base::Bytes::adopt(std::move(out += '}')));
  }

  const std::string id_, items_;
};

class CompactionTask final : public PromptTask {
 public:
  CompactionTask(Request request, const Exchange& exchange, const bus::Served& served, std::string id)
      : PromptTask(Kind::kChat, std::move(request), exchange, served), id_(std::move(id)) {}

  void made() override { items_ = user_items(request_, id_); }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto answer =
        std::make_unique<CompactionAnswer>(state, exchange, std::move(request_), std::move(id_), std::move(items_));
    Answer& running = *answer;
    exchange.attach(std::move(answer));
    if (ApiError bad = running.start(served, std::move(prompts_)); !bad.ok()) respond(exchange, bad);
  }

 private:
  std::string id_, items_;
};

}  // namespace

std::string sealed_summary(std::string_view summary) {
  return base::base64_encode(std::string(kSeal) + std::string(summary));
}

std::optional<std::string> summary_in(std::string_view sealed) {
  auto text = base::base64_decode(sealed);
  if (!text || !text->starts_with(kSeal)) return std::nullopt;
  return text->substr(kSeal.size());
}

ApiError read_compaction(std::string_view text, const StoredView& stored, Request& out) {
  OrderedJson asked = OrderedJson::object();
  const ApiError bad = translate(text, [&](const OrderedJson& body) {
    for (const auto& [name, value] : body.items()) {
      if (std::find(kTaken.begin(), kTaken.end(), name) != kTaken.end())
        asked[name] = value;
      else if (!value.is_null() && std::find(kPassed.begin(), kPassed.end(), name) == kPassed.end())
        return unknown_member(name);
    }
    if (!member(asked, "model")) return refuse("model", "model: it is missing");
    OrderedJson& input = asked["input"];
    if (input.is_null() && !member(asked, "previous_response_id")) return refuse("input", "input: it is missing");
    if (input.is_string()) input = OrderedJson::array({{{"role", "user"}, {"content", input}}});
    if (!input.is_null() && !input.is_array()) return refuse("input", "input: expected a text or a list of items");
    input.push_back({{"role", "user"}, {"content", kAsk}});
    asked["store"] = false, asked["max_output_tokens"] = kMostTokens, asked["truncation"] = "auto";
    return ApiError{};
  });
  if (!bad.ok()) return bad;
  out.params.cut_max_tokens = true;
  return read_response(asked.dump(), stored, out);
}

void compact(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_with_references(state, exchange,
                       {read_compaction, [](OpenAiState& there, Exchange& x, Request&& request) {
                          auto [served, error] = find_model(there, x, request.model, bus::Needs::kTokens);
                          if (!error.ok()) return respond(x, error);
                          const size_t bytes = prompt_bytes(x, request);
                          auto task = std::make_unique<CompactionTask>(
                              std::move(request), x, *served, "resp_" + openai::random_id(there.bus, kIdDigits));
                          perform(there, x, *served, std::move(task), bytes);
                        }});
}

}  // namespace weir::openai::responses
