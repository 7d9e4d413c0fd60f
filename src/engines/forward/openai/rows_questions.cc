#include "engines/forward/openai/rows_questions.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engines/forward/openai/api_path.h"
#include "engines/forward/openai/byte_ids.h"
#include "engines/forward/openai/model_question.h"
#include "engines/forward/refusal.h"

namespace weir::forward {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;

constexpr uint32_t kLongestText = 128 << 10;          // bytes; how many tokens it takes is for the origin to say
constexpr uint32_t kMostFloats = 1 << 18;             // of one answer, which is read within a turn of the loop
constexpr auto kFirstRow = std::chrono::seconds(10);  // some servers load a model when they are first asked
constexpr double kAboutOne = 1e-2;                    // of embeddings that have length 1, as 16 bits round them

// It may take the request in another form.
bool may_differ(int status) { return is_no_path(status) || status == 400 || status == 422 || status == 501; }

bool has_length_one(const std::vector<float>& values) {
  double squares = 0;
  for (float v : values) squares += double(v) * v;
  return std::fabs(std::sqrt(squares) - 1) < kAboutOne;
}

class RowsQuestions final : public Questions {
 public:
  RowsQuestions(net::Shard& shard, OriginConn& conn, const Options& options, std::shared_ptr<const msg::TextSpec> text,
                ChosenForm& form)
      : conn_(conn),
        options_(options),
        text_(std::move(text)),
        form_(form),
        question_(shard, conn, options),
        get_(shard, conn) {}

  void ask_ready(base::Duration timeout, OnReady then) override {
    question_.ask(timeout, timeout, [its_then = std::move(then)](Result<ListedModel> listed) {
      if (!listed) return its_then(listed.error());
      its_then(true);
    });
  }
  void ask_signature(const msg::ModelSpec& wanted, base::Duration timeout, OnSignature then) override {
    timeout_ = timeout;
    wanted_ = wanted, then_ = std::move(then), next_ = 0, refusal_ = {};
    question_.ask(timeout + options_.connect_timeout, timeout, [this](Result<ListedModel> listed) {
      if (!listed) return std::exchange(then_, nullptr)(listed.error());
      listed_ = *std::move(listed);
      ask_rows();
    });
  }

 private:
  RowsFor what() const { return options_.api == OpenaiApi::kEmbeddings ? RowsFor::kEmbeddings : RowsFor::kRanking; }
  void ask_rows();
  void heard_rows(Result<Get::Answer> answer);
  msg::ModelSpec signature(const RowsAnswer& answer);
  const net::Url& url() const { return conn_.origin().url(); }
  Status named(Status status) const {
    status.text = "origin " + conn_.origin().name() + ": " + status.text;
    return status;
  }

  OriginConn& conn_;
  const Options& options_;
  const std::shared_ptr<const msg::TextSpec> text_;
  ChosenForm& form_;
  ModelQuestion question_;
  Get get_;  // of rows
  base::Duration timeout_{0};
  OnSignature then_;
  msg::ModelSpec wanted_;
  ListedModel listed_;
  size_t next_ = 0;      // of the forms
  std::string refusal_;  // of those that it has not taken, the one that says most
};

void RowsQuestions::ask_rows() {
  const RowsForm& form = rows_forms(what())[next_];
  const TextRows probe{.texts = {"a text"}, .ids = {}, .query = "a query"};
  get_.post(target_at(url(), form.target), write_rows_request(probe, form.body, options_.model),
            std::max<base::Duration>(timeout_, kFirstRow),
            [this](Result<Get::Answer> answer) { heard_rows(std::move(answer)); });
}

void RowsQuestions::heard_rows(Result<Get::Answer> answer) {
  if (!answer) return std::exchange(then_, nullptr)(named(answer.error()));
  const auto forms = rows_forms(what());
  const std::string target = target_at(url(), forms[next_].target);
  if (answer->status != 200) {
    Status status = error_of(answer->status, answer->body, {});
    if (refusal_.empty() || !is_no_path(answer->status)) refusal_ = target + ": " + status.text;
    if (may_differ(answer->status) && ++next_ < forms.size()) return ask_rows();
    return std::exchange(then_, nullptr)(named(failure(Code::kUnavailable, refusal_)));
  }
  auto read = what() == RowsFor::kEmbeddings ? read_embeddings(answer->body, 1, options_.embedding_size)
                                             : read_ranking(answer->body, 1);
  if (!read) {
    read.error().text = target + ": " + read.error().text;
    return std::exchange(then_, nullptr)(named(read.error()));
  }
  form_.store(next_, std::memory_order_relaxed);
  std::exchange(then_, nullptr)(signature(*read));
}

msg::ModelSpec RowsQuestions::signature(const RowsAnswer& answer) {
  auto text = text_ ? std::make_shared<msg::TextSpec>(*text_) : std::make_shared<msg::TextSpec>();
  const auto width = uint32_t(answer.values.size());
  text->max_length = options_.max_length > 0 ? options_.max_length : listed_.max_length;
  if (!text_) {
    text->codec = byte_ids::make_codec(), text->vocabulary = byte_ids::kVocabulary;
    text->max_length = options_.max_length > 0 ? std::min(options_.max_length, uint32_t(kMostRowBytes)) : kLongestText;
    text->remote_chat = msg::TextSpec::RemoteChat{};
  }
  if (text->max_length == 0) text->max_length = kLongestText;
  msg::ModelSpec spec = std::move(wanted_);
  spec.inputs = text_row_inputs(what());
  if (what() == RowsFor::kRanking) {
    const std::vector<std::string> labels{"LABEL_0"};
    text->labels = 1;
    spec.outputs = {{"scores", msg::DType::kFp32, {1}, false, labels}};
  } else {
    text->hidden_size = width, text->normalized = has_length_one(answer.values);
    spec.outputs = {{"sentence_embedding", msg::DType::kFp32, {int64_t(width)}, false, {}}};
  }
  spec.max_batch = std::clamp(kMostFloats / width, 1u, options_.max_texts);
  spec.encoder = std::move(text);
  spec.ragged = true;
  if (spec.platform.empty()) spec.platform = "openai";
  return spec;
}

}  // namespace

std::unique_ptr<Questions> make_rows_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                               std::shared_ptr<const msg::TextSpec> text, ChosenForm& form) {
  return std::make_unique<RowsQuestions>(shard, conn, options, std::move(text), form);
}

}  // namespace weir::forward
