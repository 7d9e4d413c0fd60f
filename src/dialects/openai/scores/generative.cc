// POST /generative_scoring, as vLLM has it, and /score, as SGLang has it: how likely a token is behind a text, of a
// model that makes tokens.
//
//   {"model","query","items","label_token_ids","apply_softmax","item_first","add_special_tokens"}: texts or token ids
//   →
//   {"id":"generative-scoring-…","object":"list","created","model","data":[{"index","object":"score","score"}],"usage"}
// The score of an item is the probability of the first label behind the query and the item: among the labels, or
// (apply_softmax: false) among all tokens. SGLang's members are the same, with apply_softmax false where it is absent,
// and its answer has every label's probability:
//   {"scores":[[…],…],"model","usage","object":"scoring"}
// A label is put behind its prompt, whose last position tells its log
// probability; nothing is generated. The first labels of all items come before the second ones, which find the prompts
// cached. The Calls of a request are under way a window at a time.
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "dialects/openai/reading.h"
#include "dialects/openai/request.h"
#include "dialects/openai/row_calls.h"
#include "dialects/openai/scores/request.h"
#include "dialects/openai/scores/scores.h"
#include "dialects/openai/task.h"
#include "marshal/field_reader.h"
#include "marshal/json_cursor.h"
#include "marshal/json_tensor.h"
#include "wire/answer_flow.h"

namespace weir::openai::scores {
namespace {

using wire::Exchange;
using Ids = std::vector<uint32_t>;

constexpr size_t kMaxItems = 2048, kMaxLabels = 64, kMaxLabelCalls = 8192;
constexpr size_t kLabelWindow = 16;  // Calls of one request at once

enum class LabelForm : uint8_t { kVllm, kSglang };

struct LabelRequest {
  LabelForm form = LabelForm::kVllm;
  std::string model, request_id, cache_salt;
  std::vector<Prompt> query, items;
  Ids labels;
  bool softmax = true, item_first = false, special = true;
  uint32_t priority = 0;

  // How many of the labels must be asked for.
  size_t asked() const { return softmax || form == LabelForm::kSglang ? labels.size() : 1; }
};

bool read_label_member(marshal::FieldReader& fields, std::string_view name, LabelRequest& out) {
  constexpr size_t kMaxName = 256;
  if (name == "model") return fields.text(name, kMaxName, out.model);
  if (name == "query") return read_prompts(fields, name, 1, MixedPrompts::kNo, out.query);
  if (name == "items") return read_prompts(fields, name, kMaxItems, MixedPrompts::kNo, out.items);
  if (name == "label_token_ids") return fields.ids(name, kMaxLabels, out.labels);
  if (name == "apply_softmax") return fields.flag(name, out.softmax);
  if (name == "item_first") return fields.flag(name, out.item_first);
  if (name == "add_special_tokens") return fields.flag(name, out.special);
  if (name == "priority") return fields.whole(name, 0, UINT32_MAX, out.priority);
  if (name == "cache_salt") return fields.text(name, kMaxName, out.cache_salt);
  if (name == "request_id") return read_request_id(fields, name, out.request_id);
  return skip_member(fields.json(), fields, name);
}

ApiError read_label_request(std::string_view body, LabelRequest& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  const bool good = json.object([&](std::string_view key) {
    return read_label_member(fields, std::string(key), out);
  }) && json.finish();
  if (!good) return {fields.error(), fields.param(), {}};
  if (out.query.empty()) return openai::refuse("query", "query must be a text, or token ids");
  if (out.items.empty()) return openai::refuse("items", "items must be a list of texts, or of lists of token ids");
  if (out.labels.empty()) return openai::refuse("label_token_ids", "label_token_ids must be a list of token ids");
  if (out.items.size() * out.asked() > kMaxLabelCalls)
    return openai::refuse("items",
                          "items: at most " + std::to_string(kMaxLabelCalls) + " in one request, items × labels");
  return {};
}

// The query and the items as ids.
struct LabelPrompts {
  Ids query;
  std::vector<Ids> items;

  size_t bytes() const {
    size_t out = items.size() * sizeof(Ids) + query.capacity() * sizeof(uint32_t);
    for (const Ids& ids : items) out += ids.capacity() * sizeof(uint32_t);
    return out;
  }
};

class LabelScores final : public RowCalls {
 public:
  LabelScores(OpenAiState& state, Exchange& exchange, LabelRequest request, LabelPrompts prompts)
      : RowCalls(state, exchange, bus::Needs::kTokens, request.priority),
        request_(std::move(request)),
        prompts_(std::move(prompts)),
        logprobs_(prompts_.items.size() * request_.asked()) {}

  void start(const bus::Served& served) {
    const size_t calls = logprobs_.size();
    uint64_t charged = 0;
    if (!gathered_.grow(charged, prompts_.bytes() + bytes_of_rows(calls) + calls * sizeof logprobs_[0]))
      return fail(wire::no_room_for_answer());
    begin(served, calls, {kLabelWindow});
  }

 private:
  base::Result<uint64_t> fill(msg::Call& call, const msg::ModelSpec&, size_t row) override {
    const Ids& item = prompts_.items[row % prompts_.items.size()];
    const Ids& front = request_.item_first ? item : prompts_.query;
    const Ids& back = request_.item_first ? prompts_.query : item;
    call.generation = std::make_unique<msg::Generation>();
    msg::Generation& asked = *call.generation;
    asked.append.reserve(front.size() + back.size() + 1);
    asked.append.insert(asked.append.end(), front.begin(), front.end());
    asked.append.insert(asked.append.end(), back.begin(), back.end());
    const auto at = uint32_t(asked.append.size());
    asked.append.push_back(request_.labels[row / prompts_.items.size()]);
    asked.logprobs.push_back({at, at + 1});
    asked.max_tokens = 0;
    asked.cache_salt = cache_salt(state_, request_.cache_salt);
    return at + 1;
  }

  base::Status take(size_t row, const msg::Event& event) override {
    const auto* token = std::get_if<msg::Token>(&event.what);
    if (token && token->details && token->details->has_logprob) logprobs_[row] = token->details->logprob;
    if (!event.last() || logprobs_[row]) return {};
    return base::failure(base::Code::kInternal, "the model gave no log probability");
  }

  double score(size_t item, size_t label) const {
    const double asked = *logprobs_[label * prompts_.items.size() + item];
    if (!request_.softmax) return std::exp(asked);
    double total = 0;
    for (size_t at = item; at < logprobs_.size(); at += prompts_.items.size())
      total += std::exp(*logprobs_[at] - asked);
    return 1 / total;
  }
  void write_score(std::string& out, size_t item, size_t label) const {
    const double value = score(item, label);
    marshal::write_number(out, std::isfinite(value) ? value : 0.0);
  }
  void write_usage(std::string& out) const {
    uint64_t tokens = 0;
    for (const Ids& item : prompts_.items) tokens += prompts_.query.size() + item.size();
    const std::string sum = std::to_string(tokens);
    out += ",\"usage\":{\"prompt_tokens\":" + sum + ",\"completion_tokens\":0,\"total_tokens\":" + sum + '}';
  }

  void finish() override {
    std::string out = request_.form == LabelForm::kSglang ? sglang_answer() : vllm_answer();
    gathered_.release();
    respond_json(exchange_, std::move(out));
  }

  std::string sglang_answer() const {
    std::string out = "{\"scores\":[";
    for (size_t item = 0; item < prompts_.items.size(); ++item) {
      out += item > 0 ? ",[" : "[";
      for (size_t label = 0; label < request_.labels.size(); ++label) {
        if (label > 0) out += ',';
        write_score(out, item, label);
      }
      out += ']';
    }
    out += "],\"model\":";
    marshal::write_string(out, name_in_answer(request_.model, model_));
    write_usage(out);
    return out += ",\"object\":\"scoring\"}";
  }

  std::string vllm_answer() const {
    const auto now = std::chrono::duration_cast<std::chrono::seconds>(state_.bus.env().wall().time_since_epoch());
    std::string out = "{\"id\":\"generative-scoring-";
    out += request_.request_id.empty() ? random_id(state_.bus, 24) : request_.request_id;
    out += "\",\"object\":\"list\",\"created\":" + std::to_string(now.count()) + ",\"model\":";
    marshal::write_string(out, name_in_answer(request_.model, model_));
    out += ",\"data\":[";
    for (size_t i = 0; i < prompts_.items.size(); ++i) {
      out += (i > 0 ? ",{\"index\":" : "{\"index\":") + std::to_string(i) + ",\"object\":\"score\",\"score\":";
      write_score(out, i, 0);
      out += '}';
    }
    out += ']';
    write_usage(out);
    return out += '}';
  }

  const LabelRequest request_;
  const LabelPrompts prompts_;
  // They are of the first label for each item, then of the second, …
  std::vector<std::optional<float>> logprobs_;
};

// Texts become ids.
class LabelTask final : public Task {
 public:
  LabelTask(LabelRequest request, const bus::Served& served)
      : request_(std::move(request)), spec_(held_tokens(served)) {}

  void run() override { make({.cancelled = cancelled()}); }
  void then(OpenAiState& state, Exchange& exchange, bus::Served& served) override {
    auto reader = std::make_unique<LabelScores>(state, exchange, std::move(request_), std::move(prompts_));
    LabelScores& running = *reader;
    exchange.attach(std::move(reader));
    running.start(served);
  }

 private:
  // Each text goes when its ids are there.
  void make(const msg::TextBudget& budget) {
    openai::Request query, item;
    query.add_special = request_.special, item.add_special = false;
    error = encode(request_.query.front(), query, "query", budget, prompts_.query);
    for (Prompt& text : request_.items)
      if (error.ok()) error = encode(text, item, "items", budget, prompts_.items.emplace_back());
    for (const Ids& ids : prompts_.items)
      if (error.ok()) error = check_length(ids.size());
    if (error.ok()) error = check_ids(*spec_, request_.labels, "label_token_ids");
  }

  ApiError encode(Prompt& prompt, const openai::Request& form, const char* name, const msg::TextBudget& budget,
                  Ids& out) const {
    Sequence made;
    ApiError bad = make_prompt(prompt, form, *spec_, name, made, budget);
    prompt = {};
    out = std::move(made.ids);
    return bad.ok() ? check_ids(*spec_, out, name) : bad;
  }
  // The label needs a place, too.
  ApiError check_length(size_t item) const {
    const size_t tokens = prompts_.query.size() + item;
    if (tokens == 0) return openai::refuse("items", "items: a text without tokens");
    if (tokens < spec_->max_length) return {};
    return exceeds_context(*spec_, "items", std::to_string(tokens) + " tokens");
  }

  LabelRequest request_;
  const std::shared_ptr<const msg::TextSpec> spec_;
  LabelPrompts prompts_;
};

void score_labels(OpenAiState& state, Exchange& exchange, LabelRequest&& request) {
  auto [served, error] = find_model(state, exchange, request.model, bus::Needs::kTokens);
  if (!error.ok()) return respond(exchange, error);
  if (served->spec.text->remote_chat)
    return respond(exchange, openai::refuse("model", "another server has this model's tokens"));
  auto task = std::make_unique<LabelTask>(std::move(request), *served);
  perform(state, exchange, *served, std::move(task), exchange.content().size());
}

// A body of /score, in vLLM's form or in SGLang's, whose members `query` and `label_token_ids` are not vLLM's.
struct EitherScores {
  std::optional<LabelRequest> labels;
  Request texts;
};

ApiError read_either(std::string_view body, EitherScores& out) {
  bool sglang = false;
  marshal::JsonCursor json(body);
  (void)json.object([&](std::string_view key) {
    sglang = sglang || key == "query" || key == "label_token_ids";
    return json.skip();
  });
  if (!sglang) return read_request(body, ScoreApi::kScore, out.texts);
  LabelRequest& labels = out.labels.emplace();
  labels.form = LabelForm::kSglang;
  labels.softmax = false;
  return read_label_request(body, labels);
}

}  // namespace

void score(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<EitherScores>(state, exchange, read_either, [](OpenAiState& there, Exchange& x, EitherScores&& asked) {
    if (asked.labels) return score_labels(there, x, std::move(*asked.labels));
    score_texts(there, x, ScoreApi::kScore, std::move(asked.texts));
  });
}

void generative(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  read_body<LabelRequest>(state, exchange, read_label_request, score_labels);
}

}  // namespace weir::openai::scores
