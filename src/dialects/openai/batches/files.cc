#include "base/encoding.h"
#include "base/units.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "jobs/shard_jobs.h"
#include "marshal/json_tensor.h"

namespace weir::openai::batches {
namespace {

using base::Result;
using jobs::File;
using jobs::Storage;
using wire::Exchange;

constexpr size_t kMostListedFiles = 1000;

using Found = std::optional<File>;

// A file's content goes out part by part: the next one is read when the peer has room for it.
class Download final : public wire::ExchangeListener {
 public:
  Download(jobs::ShardJobs& jobs, Exchange& exchange, File file, std::string_view type)
      : jobs_(jobs), exchange_(exchange), file_(std::move(file)) {
    wire::Response response;
    response.fields.add("content-type", type);
    response.fields.add("content-length", std::to_string(file_.bytes));
    exchange_.head(std::move(response));
    next();
  }

  void on_drain(Exchange&) override { next(); }
  void on_close(Exchange&, bool) override { question_ = nullptr; }

 private:
  void next() {
    if (question_ || over_) return;
    if (sent_ == file_.bytes) return end();
    auto question = jobs_.ask([id = file_.id, part = part_](Storage& s) { return s.files.read(id, part); },
                              [this](Result<std::string> text) {
                                question_ = nullptr;
                                wire::guarded(exchange_, [&] { take(std::move(text)); });
                              });
    if (!question) return fail();
    question_ = *std::move(question);
  }
  // A part that is missing: the file was deleted meanwhile.
  void take(Result<std::string> text) {
    if (!text || text->empty() || sent_ + text->size() > file_.bytes) return fail();
    ++part_;
    sent_ += text->size();
    exchange_.body(base::Bytes::adopt(std::move(*text)));
    if (sent_ == file_.bytes) return end();
    if (exchange_.has_room()) return next();
    exchange_.call_on_drain();
  }
  void end() {
    over_ = true;
    exchange_.end();
  }
  void fail() {
    over_ = true;
    exchange_.reset(wire::Reset::kInternal);
  }

  jobs::ShardJobs& jobs_;
  Exchange& exchange_;
  const File file_;
  jobs::ShardJobs::Question question_;
  uint64_t part_ = 0, sent_ = 0;
  bool over_ = false;
};

// Parts of uploads, and what batches are made of.
bool is_hidden(const File& file) { return file.purpose.empty(); }

// Finds the file of the path, and answers with `then`, void(Exchange&, File), or that there is none.
template <class Then>
void with_file(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args, Then then) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const std::string id(args["file"]);
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id](Storage& s) { return s.files.find(owner, id); },
      [id, then](Exchange& x, Result<Found> found) {
        if (!found) return respond(x, refuse(found.error()));
        if (!*found || is_hidden(**found)) return respond(x, no_such("file", id));
        then(x, **found);
      });
}

}  // namespace

jobs::ShardJobs* journal_of(OpenAiState& state, Exchange& exchange) {
  jobs::ShardJobs* journal = state.options.jobs;
  const base::Status off = base::failure(base::Code::kUnimplemented, "files and batches are not kept here");
  const base::Status& why = journal ? journal->available() : off;
  if (why.ok()) return journal;
  respond(exchange, ApiError{why, {}, "not_available"});
  return nullptr;
}

ApiError no_such(std::string_view what, std::string_view id) {
  return {
      base::failure(base::Code::kNotFound, "No such " + std::string(what) + ": " + std::string(base::cut_text(id, 64))),
      "id", "not_found"};
}

ApiError journal_error(const base::Status& why) {
  ApiError error = refuse(why);
  if (why.code == base::Code::kNotFound) error.param = "id", error.code = "not_found";
  return error;
}

std::optional<size_t> list_limit(Exchange& exchange, size_t most, size_t usual) {
  const std::string text = exchange.request().query_value("limit");
  if (text.empty()) return usual;
  auto limit = base::parse_count(text, UINT32_MAX);
  if (limit && *limit > 0) return std::min<size_t>(size_t(*limit), most);
  respond(exchange, refuse("limit", "limit must be a whole number > 0"));
  return std::nullopt;
}

std::optional<jobs::ListOrder> list_order(Exchange& exchange) {
  const std::string text = exchange.request().query_value("order");
  if (text.empty() || text == "desc") return jobs::ListOrder::kNewestFirst;
  if (text == "asc") return jobs::ListOrder::kOldestFirst;
  respond(exchange, refuse("order", "order must be asc or desc"));
  return std::nullopt;
}

std::string list_json(const std::vector<std::pair<std::string, std::string>>& objects, size_t limit) {
  const size_t shown = std::min(objects.size(), limit);
  std::string out = R"({"object":"list","data":[)";
  for (size_t i = 0; i < shown; ++i) (out += i > 0 ? "," : "") += objects[i].second;
  out += "],\"first_id\":";
  auto id = [&](size_t at) {
    if (shown == 0)
      out += "null";
    else
      marshal::write_string(out, objects[at].first);
  };
  id(0);
  out += ",\"last_id\":";
  id(shown - 1);
  return out + ",\"has_more\":" + (objects.size() > limit ? "true" : "false") + "}";
}

void send_file(jobs::ShardJobs& journal, Exchange& exchange, const File& file, std::string_view type) {
  exchange.attach(std::make_unique<Download>(journal, exchange, file, type));
}

void list_files(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const auto limit = list_limit(exchange, kMostListedFiles, kMostListedFiles);
  if (!limit) return;
  const auto order = list_order(exchange);
  if (!order) return;
  const wire::Request& request = exchange.request();
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(request).owner, purpose = request.query_value("purpose"), order = *order,
       after = request.query_value("after"),
       most = *limit + 1](Storage& s) { return s.files.list(owner, purpose, order, after, most); },
      [limit](Exchange& x, Result<std::vector<File>> files) {
        if (!files) return respond(x, refuse(files.error()));
        std::vector<std::pair<std::string, std::string>> objects;
        for (const File& file : *files) objects.emplace_back(file.id, file_json(file));
        respond_json(x, list_json(objects, *limit));
      });
}

void show_file(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_file(state, exchange, args, [](Exchange& x, const File& file) { respond_json(x, file_json(file)); });
}

void file_content(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  with_file(state, exchange, args, [journal = state.options.jobs](Exchange& x, const File& file) {
    send_file(*journal, x, file, "application/octet-stream");
  });
}

void delete_file(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  const std::string id(args["file"]);
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id](Storage& s) -> Result<bool> {
        auto found = s.files.find(owner, id);
        if (!found) return found.error();
        if (!*found || is_hidden(**found)) return false;
        base::Status removed = s.atomically([&] { return s.files.remove(id); });
        if (!removed.ok()) return removed;
        return true;
      },
      [id](Exchange& x, Result<bool> removed) {
        if (!removed) return respond(x, refuse(removed.error()));
        if (!*removed) return respond(x, no_such("file", id));
        std::string out = "{\"id\":";
        marshal::write_string(out, id);
        respond_json(x, out + R"(,"object":"file","deleted":true})");
      });
}

}  // namespace weir::openai::batches
