#include "dialects/openai/batches/shown.h"

#include "marshal/field_reader.h"

namespace weir::openai::batches {

using base::Code;
using base::failure;
using base::Result;
using base::Status;
using jobs::Batch;
using jobs::Storage;

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

Result<std::vector<Shown>> list_shown(Storage& storage, std::string_view owner, std::string_view kind,
                                      jobs::ListOrder order, std::string_view after, size_t most) {
  auto batches = storage.batches.list(owner, kind, order, after, most);
  if (!batches) return batches.error();
  std::vector<Shown> out;
  for (Batch& batch : *batches)
    if (auto one = shown(storage, std::move(batch))) out.push_back(*std::move(one));
  return out;
}

// A batch of OpenAI's API is made of one of its client's files, that of another of a file of its own.
Result<Shown> add_batch(Storage& s, Batch batch, BatchDocument document, const jobs::Limits& limits) {
  const std::string& owner = batch.requester.owner;
  const std::string_view purpose = batch.kind == kKind ? kForBatches : std::string_view();
  auto file = s.files.find(owner, document.input_file);
  if (!file) return file.error();
  if (!*file || (*file)->purpose != purpose)
    return base::invalid("input_file_id must name a file of purpose batch that is there");
  auto unfinished = s.batches.count(owner, kUnfinished);
  if (!unfinished) return unfinished.error();
  if (*unfinished >= limits.max_batches)
    return failure(Code::kResourceExhausted, "you have as many unfinished batches as you may (jobs.max_batches)");
  auto use = s.files.use(owner);
  if (!use) return use.error();
  // Its requests become jobs beside the file. One that is not its client's goes then, and counts once.
  const uint64_t more = purpose.empty() ? 0 : (*file)->bytes;
  if (use->bytes + more > limits.tenant_disk) return jobs::quota_is_used_up();
  batch.document = show_document(document);
  if (Status added = s.batches.add(batch); !added.ok()) return added;
  return Shown{std::move(batch), std::move(document), {}};
}

Status save(Storage& s, Shown& one) {
  one.batch.document = show_document(one.document);
  auto changed = s.batches.change(one.batch);
  return changed ? Status() : changed.error();
}

// Those of its jobs that run are ended once the journal knows that the rest never will.
Result<Shown> cancel(Storage& s, Batch batch, base::WallTime now) {
  auto there = shown(s, std::move(batch));
  if (!there || there->batch.state == kCancelling || there->batch.state == kCancelled) return there;
  if (over(there->batch.state) || there->batch.state == kFinalizing)
    return failure(Code::kAborted, "a batch that is " + there->batch.state + " cannot be cancelled");
  there->document.cancelling = unix_seconds(now);
  there->batch.state = kCancelling;
  Status status = s.atomically([&] {
    auto saved = save(s, *there);
    return saved.ok() ? s.journal.withdraw(there->batch.id) : saved;
  });
  if (!status.ok()) return status;
  return there;
}

bool read_ttl(marshal::FieldReader& fields, std::string_view name, uint64_t& out) {
  marshal::JsonCursor& json = fields.json();
  if (json.peek() != marshal::JsonCursor::Kind::kObject) return fields.unexpected(name, "an object");
  const std::string member(name);
  std::string anchor;
  std::optional<uint32_t> seconds;
  const bool ok = json.object([&](std::string_view key) {
    if (key == "anchor") return fields.text(member + ".anchor", 32, anchor);
    if (key == "seconds") return fields.whole(member + ".seconds", kShortestTtl, kLongestTtl, seconds);
    return fields.refuse(member, "takes anchor and seconds");
  });
  if (!ok) return false;
  if (anchor != "created_at" || !seconds) return fields.refuse(member, "takes the anchor created_at, and seconds");
  return out = *seconds, true;
}

}  // namespace weir::openai::batches
