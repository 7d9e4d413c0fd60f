#include "dialects/openai/batches/batches.h"

#include <algorithm>

#include "base/units.h"
#include "dialects/openai/batches/document.h"
#include "dialects/openai/reading.h"
#include "jobs/shard_jobs.h"
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

// A batch as it is shown.
struct Shown {
  Batch batch;
  BatchDocument document;
  jobs::Counts counts;

  std::string json() const { return batch_json(batch, document, counts); }
};

Result<Shown> shown(Storage& storage, Batch batch) {
  auto document = read_document(batch.document);
  if (!document) return failure(Code::kDataLoss, "the record of the batch cannot be read");
  Shown out{std::move(batch), *std::move(document), {}};
  if (over(out.batch.state)) {
    out.counts = out.document.counts;
    return out;
  }
  auto counts = storage.journal.count(out.batch.id);
  if (!counts) return counts.error();
  out.counts = *counts;
  if (out.batch.state == kValidating) out.counts = {};
  return out;
}

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

// {"anchor": "created_at", "seconds": …}
bool read_output_ttl(marshal::FieldReader& fields, std::string_view name, uint64_t& out) {
  marshal::JsonCursor& json = fields.json();
  if (json.peek() != marshal::JsonCursor::Kind::kObject) return fields.unexpected(name, "an object");
  std::string anchor;
  std::optional<uint32_t> seconds;
  const bool ok = json.object([&](std::string_view key) {
    if (key == "anchor") return fields.text("output_expires_after.anchor", 32, anchor);
    if (key == "seconds") return fields.whole("output_expires_after.seconds", kShortestTtl, kLongestTtl, seconds);
    return fields.refuse(name, "takes anchor and seconds");
  });
  if (!ok) return false;
  if (anchor != "created_at" || !seconds) return fields.refuse(name, "takes the anchor created_at, and seconds");
  return out = *seconds, true;
}

ApiError read_create(std::string_view body, CreateRequest& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  BatchDocument& d = out.document;
  const bool ok = json.object([&](std::string_view name) {
    if (name == "input_file_id") return fields.text(name, 128, d.input_file);
    if (name == "endpoint") return fields.text(name, 64, d.endpoint);
    if (name == "completion_window") return fields.text(name, 16, d.window);
    if (name == "output_expires_after") return fields.none() || read_output_ttl(fields, name, d.output_ttl);
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

// Adds a batch whose file is there, where there is room for it.
Result<Shown> add_batch(Storage& s, Batch batch, BatchDocument document, const jobs::Limits& limits) {
  const std::string& owner = batch.requester.owner;
  auto file = s.files.find(owner, document.input_file);
  if (!file) return file.error();
  if (!*file || (*file)->purpose != "batch")
    return base::invalid("input_file_id must name a file of purpose batch that is there");
  auto unfinished = s.batches.count(owner, kUnfinished);
  if (!unfinished) return unfinished.error();
  if (*unfinished >= limits.max_batches)
    return failure(Code::kResourceExhausted, "you have as many unfinished batches as you may (jobs.max_batches)");
  auto use = s.files.use(owner);
  if (!use) return use.error();
  if (use->bytes + (*file)->bytes > limits.tenant_disk) return jobs::quota_is_used_up();
  batch.document = show_document(document);
  if (Status added = s.batches.add(batch); !added.ok()) return added;
  return Shown{std::move(batch), std::move(document), {}};
}

void respond_shown(Exchange& exchange, const Result<Shown>& batch) {
  if (!batch) return respond(exchange, refuse(batch.error()));
  respond_json(exchange, batch->json());
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
        respond_shown(x, added);
      });
}

void do_nothing(const std::string&) {}

// Finds the batch of the path and does `work`, Result<Shown>(Storage&, Batch), with it; answers with the outcome.
// `done`, void(const std::string& id), on the store's thread: what it has written is there for good.
template <class Work, class Done = void (&)(const std::string&)>
void with_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args, Work work, Done done = do_nothing) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const std::string id(args["batch"]);
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id, work](Storage& s) -> Result<std::optional<Shown>> {
        auto found = s.batches.find(owner, id);
        if (!found) return found.error();
        if (!*found || (*found)->kind != kKind) return std::optional<Shown>();
        auto now = work(s, **std::move(found));
        if (!now) return now.error();
        return std::optional<Shown>(*std::move(now));
      },
      [id](Exchange& x, Result<std::optional<Shown>> found) {
        if (!found) return respond(x, refuse(found.error()));
        if (!*found) return respond(x, no_such("batch", id));
        respond_json(x, (*found)->json());
      },
      [id, done](const std::optional<Shown>& found) {
        if (found) done(id);
      });
}

// Those of its jobs that run are ended once the journal knows that the rest never will.
Result<Shown> cancel(Storage& s, Batch batch, base::WallTime now) {
  auto there = shown(s, std::move(batch));
  if (!there || there->batch.state == kCancelling || there->batch.state == kCancelled) return there;
  if (over(there->batch.state) || there->batch.state == kFinalizing)
    return failure(Code::kAborted, "a batch that is " + there->batch.state + " cannot be cancelled");
  there->document.cancelling = unix_seconds(now);
  there->batch.state = kCancelling;
  there->batch.document = show_document(there->document);
  Status status = s.atomically([&] {
    auto changed = s.batches.change(there->batch);
    return changed ? s.journal.withdraw(there->batch.id) : changed.error();
  });
  if (!status.ok()) return status;
  return there;
}

}  // namespace

void create_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!journal_of(state, exchange)) return;
  read_body<CreateRequest>(state, exchange, read_create, create);
}

void show_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_batch(state, exchange, args, [](Storage& s, Batch batch) { return shown(s, std::move(batch)); });
}

void list_batches(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const auto limit = list_limit(exchange, kMostListed, kUsuallyListed);
  if (!limit) return;
  using Objects = std::vector<std::pair<std::string, std::string>>;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, after = exchange.request().query_value("after"),
       most = *limit + 1](Storage& s) -> Result<Objects> {
        auto batches = s.batches.list(owner, kKind, after, most);
        if (!batches) return batches.error();
        Objects out;
        for (Batch& batch : *batches) {
          auto one = shown(s, std::move(batch));
          if (one) out.emplace_back(one->batch.id, one->json());
        }
        return out;
      },
      [limit](Exchange& x, Result<Objects> objects) {
        if (!objects) return respond(x, refuse(objects.error()));
        respond_json(x, list_json(*objects, *limit));
      });
}

void cancel_batch(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = state.options.jobs;
  with_batch(
      state, exchange, args,
      [now = state.bus.env().wall()](Storage& s, Batch batch) { return cancel(s, std::move(batch), now); },
      [journal](const std::string& id) { journal->cancel(id); });
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
