#include "dialects/openai/batches/uploads.h"

#include <algorithm>
#include <utility>

#include "base/encoding.h"
#include "base/units.h"
#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "dialects/openai/batches/form_upload.h"
#include "dialects/openai/reading.h"
#include "marshal/field_reader.h"
#include "marshal/json_tensor.h"

namespace weir::openai::batches {
namespace {

using base::Code;
using base::Result;
using base::Status;
using jobs::Storage;
using wire::Exchange;

constexpr size_t kLongestName = 255, kMostType = 255, kMostId = 128;

ApiError read_new_upload(std::string_view body, UploadRecord& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  std::string type;
  const bool ok = json.object([&](std::string_view name) {
    if (name == "bytes") return fields.whole(name, 1, INT64_MAX, out.bytes);
    if (name == "filename") return fields.text(name, kLongestName, out.name);
    if (name == "purpose") return fields.text(name, 64, out.purpose);
    if (name == "mime_type") return fields.text(name, kMostType, type);
    if (name == "expires_after") return fields.none() || read_ttl(fields, name, out.ttl);
    return fields.refuse(name, "is not known here");
  }) && json.finish();
  if (!ok) return {fields.error(), fields.param(), {}};
  if (out.bytes == 0) return refuse("bytes", "bytes is missing");
  if (out.name.empty()) return refuse("filename", "filename is missing");
  if (out.purpose != kForBatches) return refuse("purpose", "purpose must be batch: files are kept for batches alone");
  out.name = base::presentable(out.name, kLongestName);
  return {};
}

void begin_upload(OpenAiState& state, Exchange& exchange, UploadRecord&& upload) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  if (KeptBody::Bound most = largest_file(journal->limits()); upload.bytes > most.bytes)
    return respond(exchange, refuse("bytes", std::move(most.text)));
  const base::WallTime now = journal->wall();
  upload.batch = {journal->new_id("upload_"),
                  std::string(kUploadKind),
                  journal->requester_of(exchange.request()),
                  std::string(kPending),
                  {},
                  now,
                  now + kUploadTime,
                  jobs::Batch::Jobs::kWait};
  jobs::ask_for(
      *journal, exchange,
      [upload = std::move(upload), limits = journal->limits()](Storage& s) -> Result<UploadRecord> {
        constexpr std::string_view kStates[] = {kPending};
        auto pending = s.batches.count(upload.batch.requester.owner, kStates);
        if (!pending) return pending.error();
        if (*pending >= limits.max_batches)
          return base::failure(Code::kResourceExhausted, "you have as many uploads as you may (jobs.max_batches)");
        auto use = s.files.use(upload.batch.requester.owner);
        if (!use) return use.error();
        if (use->bytes + upload.bytes > limits.tenant_disk) return jobs::quota_is_used_up();
        if (Status added = s.batches.add(batch_of(upload)); !added.ok()) return added;
        return upload;
      },
      [](Exchange& x, Result<UploadRecord> added) {
        if (!added) return respond(x, refuse(added.error()));
        respond_json(x, upload_json(*added));
      });
}

class PartUpload final : public FormUpload {
 public:
  PartUpload(OpenAiState& state, Exchange& exchange, const std::string& boundary, std::string_view upload)
      : FormUpload(state, exchange, boundary, "data", "part_", largest(state.options.jobs->limits())),
        upload_(upload) {}

 private:
  static Bound largest(const jobs::Limits& limits) {
    const uint64_t most = std::min(kMostPartBytes, limits.max_file);
    return {most, "a part may have " + base::show_size(most)};
  }
  Status on_field(std::string_view, const std::string&) override { return {}; }
  Status on_form() override {
    file().expires = file().created + kUploadTime;
    return {};
  }
  Work before_part() override {
    return [owner = file().owner, id = upload_, now = journal().wall()](Storage& s) {
      auto upload = find_pending(s, owner, id, now);
      return upload ? Status() : upload.error();
    };
  }
  Work with_file() override {
    return [part = file(), id = upload_, now = journal().wall()](Storage& s) -> Status {
      auto upload = find_pending(s, part.owner, id, now);
      if (!upload) return upload.error();
      if (part.bytes > upload->bytes) return base::invalid("the part has more bytes than the upload");
      if (upload->parts.size() >= kMostParts)
        return base::invalid("an upload may have " + std::to_string(kMostParts) + " parts");
      upload->parts.push_back({part.id, part.bytes});
      return save(s, *std::move(upload));
    };
  }
  void answer() override {
    std::string out = "{\"id\":";
    marshal::write_string(out, file().id);
    out += ",\"object\":\"upload.part\",\"created_at\":" + std::to_string(unix_seconds(file().created)) +
           ",\"upload_id\":";
    marshal::write_string(out, upload_);
    respond_json(exchange(), out + "}");
  }

  const std::string upload_;
};

struct CompleteRequest {
  std::vector<std::string> parts;  // ids, in their order
  std::string md5;
};

ApiError read_complete(std::string_view body, CompleteRequest& out) {
  marshal::JsonCursor json(body);
  marshal::FieldReader fields(json);
  const auto id = [&] {
    if (out.parts.size() == kMostParts) return fields.refuse("part_ids", "takes 1000 at most");
    return fields.text("part_ids", kMostId, out.parts.emplace_back());
  };
  const bool ok = json.object([&](std::string_view name) {
    if (name == "part_ids") return out.parts.empty() && json.array(id);
    if (name == "md5") return fields.text(name, 64, out.md5);
    return fields.refuse(name, "is not known here");
  }) && json.finish();
  if (!ok) return {fields.error(), fields.param(), {}};
  for (char& c : out.md5)
    if (c >= 'A' && c <= 'F') c = char(c - 'A' + 'a');
  constexpr std::string_view kHex = "0123456789abcdef";
  if (!out.md5.empty() && (out.md5.size() != 32 || out.md5.find_first_not_of(kHex) != out.md5.npos))
    return refuse("md5", "md5 must be 32 hexadecimal digits");
  return {};
}

// The parts are the upload's, each once, and have all of its bytes. Their order stays what it is: an upload that is
// pending gets more parts, and loses none.
ApiError find_order(const UploadRecord& upload, const std::vector<std::string>& parts, std::vector<uint32_t>& out) {
  std::vector<std::pair<std::string_view, uint32_t>> known;
  for (uint32_t place = 0; place < upload.parts.size(); ++place) known.emplace_back(upload.parts[place].id, place);
  std::sort(known.begin(), known.end());
  std::vector<bool> taken(upload.parts.size());
  uint64_t bytes = 0;
  for (const std::string& id : parts) {
    auto at = std::lower_bound(known.begin(), known.end(), std::pair(std::string_view(id), uint32_t(0)));
    if (at == known.end() || at->first != id)
      return refuse("part_ids", "the upload has no part '" + std::string(base::cut_text(id, 64)) + "'");
    if (taken[at->second]) return refuse("part_ids", "part_ids has a part more than once");
    taken[at->second] = true;
    bytes += upload.parts[at->second].bytes;
    out.push_back(at->second);
  }
  if (bytes == upload.bytes) return {};
  return refuse("part_ids", "the parts have " + std::to_string(bytes) + " bytes together, and the upload has " +
                                std::to_string(upload.bytes));
}

void complete(OpenAiState& state, Exchange& exchange, const std::string& id, CompleteRequest&& request) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id, now = journal->wall()](Storage& s) {
        return find_to_complete(s, owner, id, now);
      },
      [&state, request = std::move(request)](Exchange& x, Result<UploadRecord> upload) {
        if (!upload) return respond(x, journal_error(upload.error()));
        if (upload->file) return respond_json(x, upload_json(*upload));
        Completion completion{{}, request.md5};
        if (ApiError bad = find_order(*upload, request.parts, completion.order); !bad.ok()) return respond(x, bad);
        join_parts(state, x, *upload, std::move(completion));
      });
}

}  // namespace

void create_upload(OpenAiState& state, Exchange& exchange, const wire::PathArgs&) {
  if (!journal_of(state, exchange)) return;
  read_body<UploadRecord>(state, exchange, read_new_upload, begin_upload);
}

void add_upload_part(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  if (auto boundary = begin_form(state, exchange))
    exchange.attach(std::make_unique<PartUpload>(state, exchange, *boundary, args["upload"]));
}

void complete_upload(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  if (!journal_of(state, exchange)) return;
  read_body<CompleteRequest>(
      state, exchange, read_complete,
      [id = std::string(args["upload"])](OpenAiState& there, Exchange& x, CompleteRequest&& request) {
        complete(there, x, id, std::move(request));
      });
}

void cancel_upload(OpenAiState& state, Exchange& exchange, const wire::PathArgs& args) {
  jobs::ShardJobs* journal = journal_of(state, exchange);
  if (!journal) return;
  jobs::ask_for(
      *journal, exchange,
      [owner = journal->requester_of(exchange.request()).owner, id = std::string(args["upload"]),
       now = journal->wall()](Storage& s) -> Result<UploadRecord> {
        auto upload = find_pending(s, owner, id, now);
        if (!upload) return upload;
        upload->batch.state = kDropped;
        if (Status saved = save(s, *upload); !saved.ok()) return saved;
        return upload;
      },
      [](Exchange& x, Result<UploadRecord> upload) {
        if (!upload) return respond(x, journal_error(upload.error()));
        respond_json(x, upload_json(*upload));
      });
}

}  // namespace weir::openai::batches
