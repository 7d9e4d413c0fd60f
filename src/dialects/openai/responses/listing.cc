#include "dialects/openai/responses/listing.h"

#include <algorithm>
#include <memory>

#include "base/attempt.h"
#include "dialects/openai/batches/batches.h"
#include "wire/offload.h"

namespace weir::openai::responses {
namespace {

using wire::Exchange;

class MakeAnswerTask final : public base::OffloadTask {
 public:
  explicit MakeAnswerTask(std::function<JsonOrError()> make) : make_(std::move(make)) {}

  void run() override {
    const auto thrown = base::attempt("making an answer of what is stored", [this] { made_ = make_(); });
    if (!thrown.ok()) made_.error = refuse(thrown);
  }
  void answer(Exchange& exchange) {
    made_.error.ok() ? respond_json(exchange, std::move(made_.json)) : respond(exchange, made_.error);
  }

 private:
  const std::function<JsonOrError()> make_;
  JsonOrError made_;
};

}  // namespace

std::optional<Page> read_page(Exchange& exchange, jobs::ListOrder usual) {
  const auto limit = batches::list_limit(exchange, 100, 20);
  if (!limit) return std::nullopt;
  const auto order = batches::list_order(exchange);
  if (!order) return std::nullopt;
  const bool said = !exchange.request().query_value("order").empty();
  return Page{*limit, said ? *order : usual, exchange.request().query_value("after")};
}

JsonOrError make_page(Objects objects, const Page& page) {
  if (page.order == jobs::ListOrder::kNewestFirst) std::reverse(objects.begin(), objects.end());
  if (!page.after.empty()) {
    const auto last =
        std::find_if(objects.begin(), objects.end(), [&](const auto& one) { return one.first == page.after; });
    if (last == objects.end()) return {refuse("after", "after: there is no such item"), {}};
    objects.erase(objects.begin(), std::next(last));
  }
  return {{}, batches::list_json(objects, page.limit)};
}

void answer_json(OpenAiState& state, Exchange& exchange, size_t work, std::function<JsonOrError()> make) {
  auto task = std::make_unique<MakeAnswerTask>(std::move(make));
  if (!state.options.offload || work <= wire::kLongBody) return task->run(), task->answer(exchange);
  wire::run_on_worker(*state.options.offload, std::move(task), work, wire::Offload::Part::kAnswer, exchange,
                      [&exchange](const base::Status& status, std::unique_ptr<base::OffloadTask> done) {
                        if (!status.ok()) return respond(exchange, refuse(status));
                        static_cast<MakeAnswerTask&>(*done).answer(exchange);
                      });
}

}  // namespace weir::openai::responses
