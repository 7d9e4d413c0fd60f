#include "dialects/openai/batches/batches.h"

#include <algorithm>

#include "base/units.h"
#include "dialects/openai/batches/shown.h"
#include "dialects/openai/reading.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"
#include "msg/priority.h"

namespace weir::openai::batches {
namespace {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using jobs::Batch;
using jobs::Storage;
using wire::Exchange;

constexpr std::string_view kEndpoints[] = {"/v1/chat/completions", "/v1/completions", "/v1/embeddings",
                                           "/v1/responses"};
constexpr size_t kMostMetadata = 16, kMostListed = 100, kUsuallyListed = 20;
constexpr size_t kMostMetadataBytes = 16 << 10;
constexpr base::Duration kLongestWindow = std::chrono::hours(30 * 24);

struct CreateRequest {
  BatchDocument document;
  base::Duration window{};
};

bool read_metadata(marshal::JsonCursor& json, std::string& out) {
  const size_t from = json.at();
  size_t members = 0;
  const bool ok = json.object([&](std::string_view) {
    std::string_view value;
    return ++members <= kMostMetadata && json.string(value);
  });
  out = json.since(from);
  return ok && out.size() <= kMostMetadataBytes;
}

ApiError read_create(std::string_view body, CreateRequest& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  BatchDocument& d = out.document;
  const bool ok = json.object([&](std::string_view name) {
    if (name == "input_file_id") return fields.text(name, 128, d.input_file);
    if (name == "endpoint") return fields.text(name, 64, d.endpoint);
    if (name == "completion_window") return fields.text(name, 16, d.window);
    if (name == "output_expires_after") return fields.none() || read_ttl(fields, name, d.output_ttl);
    if (name == "metadata")
      return fields.none() || read_metadata(json, d.metadata) ||
             fields.refuse(name, "takes at most 16 pairs of texts, of 16 KiB together");
    return fields.refuse(name, "is not known here");
  }) && json.finish();
  if (!ok) return {fields.error(), fields.param(), {}};
  if (d.input_file.empty()) return refuse("input_file_id", "input_file_id is missing");
  if (std::find(std::begin(kEndpoints), std::end(kEndpoints), d.endpoint) == std::end(kEndpoints))
    return refuse("endpoint",
                  "endpoint must be /v1/chat/completions, /v1/completions, /v1/embeddings or /v1/responses");
  auto window = base::parse_duration(d.window);
  if (!window || *window <= base::Duration(0) || *window > kLongestWindow)
    return refuse("completion_window", "completion_window must be a time up to 720h, such as 24h");
  out.window = *window;
  return {};
}

void respond_with(Exchange& exchange, const Shown& one) {
  respond_json(exchange, batch_json(one.batch, one.document, one.counts));
}

void create(OpenAiState& state, Exchange& exchange, CreateRequest&& request) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const base::WallTime now = journal->wall();
  Batch batch{journal->new_id("batch_"),
              std::string(kKind),
              journal->requester_of(exchange.request()),
              std::string(kValidating),
              {},
              now,
              now + request.window,
              Batch::Jobs::kWait};
  request.document.deadline = unix_seconds(batch.expires);
  jobs::ask_for(
      *journal, exchange,
      [batch = std::move(batch), document = std::move(request.document), limits = journal->limits()](Storage& s) {
        return add_batch(s, batch, document, limits);
      },
      [](Exchange& x, Result<Shown> added) {
        if (!added && added.error().code == Code::kInvalidArgument)
          return respond(x, ApiError{added.error(), "input_file_id", {}});
        if (!added) return respond(x, refuse(added.error()));
        respond_with(x, *added);
      });
}

}  // namespace

void create_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!journal_of(state, exchange)) return;
  read_body<CreateRequest>(state, exchange, read_create, create);
}

void show_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_batch(state, exchange, kKind, std::string(args["batch"]), shown, respond_with);
}

void list_batches(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const auto limit = list_limit(exchange, kMostListed, kUsuallyListed);
  if (!limit) return;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, after = exchange.request().query_value("after"),
       most = *limit + 1](Storage& s) {
        return list_shown(s, owner, kKind, jobs::ListOrder::kNewestFirst, after, most);
      },
      [limit](Exchange& x, Result<std::vector<Shown>> listed) {
        if (!listed) return respond(x, refuse(listed.error()));
        std::vector<std::pair<std::string, std::string>> objects;
        for (const Shown& one : *listed)
          objects.emplace_back(one.batch.id, batch_json(one.batch, one.document, one.counts));
        respond_json(x, list_json(objects, *limit));
      });
}

void cancel_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = state.options.jobs;
  with_batch(
      state, exchange, kKind, std::string(args["batch"]),
      [now = state.bus.env().wall()](Storage& s, Batch batch) { return cancel(s, std::move(batch), now); },
      respond_with, [journal](const Shown& one) { journal->cancel(one.batch.id); });
}

// A line that names no priority waits behind all live requests for its model.
void give_way(OpenAiState& state, jobs::Job& job) {
  auto found = state.bus.catalog(nullptr).resolve(job.model, "", bus::Needs::kTokens);
  if (!found || job.body.size() < 3 || job.body.back() != '}') return;
  const uint32_t last = msg::levels((*found)->spec).count;
  if (last < 2) return;
  // The member stands first, so that the line's own counts where it has one.
  job.body.insert(1, "\"priority\":" + std::to_string(last) + ",");
}

}  // namespace weir::openai::batches
