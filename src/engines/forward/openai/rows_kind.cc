#include "engines/forward/openai/rows_kind.h"

#include <utility>

#include "engines/forward/openai/rows_attempt.h"
#include "engines/forward/openai/rows_questions.h"
#include "engines/forward/tokenizer_files.h"
#include "sched/fit.h"

namespace weir::forward {
namespace {

using base::Status;

class OpenaiRows final : public Kind {
 public:
  OpenaiRows(RowsFor what, std::shared_ptr<const msg::TextSpec> text) : what_(what), text_(std::move(text)) {}

  net::ClientConn::Http http() const override { return net::ClientConn::Http::k1; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return make_rows_attempt(asked, receiver, what_, rows_forms(what_)[form_.load(std::memory_order_relaxed)]);
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return make_rows_questions(shard, conn, options, text_, form_);
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override { return sched::rows_fit(call, spec); }
  std::optional<RowsFor> gathers() const override { return what_; }

 private:
  const RowsFor what_;
  const std::shared_ptr<const msg::TextSpec> text_;  // null: the origin has the tokenizer
  mutable ChosenForm form_{0};
};

}  // namespace

base::Result<std::shared_ptr<const Kind>> make_openai_rows(const Options& options) {
  const RowsFor what = options.api == OpenaiApi::kEmbeddings ? RowsFor::kEmbeddings : RowsFor::kRanking;
  if (options.tokenizer.empty()) return std::make_shared<OpenaiRows>(what, nullptr);
  auto text = read_tokenizer(options, {});
  if (!text) return text.error();
  return std::make_shared<OpenaiRows>(what, *std::move(text));
}

}  // namespace weir::forward
