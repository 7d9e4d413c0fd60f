#include "dialects/openai/batches/upload_record.h"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "dialects/openai/batches/batches.h"
#include "dialects/openai/batches/document.h"
#include "marshal/json_tensor.h"

namespace weir::openai::batches {
namespace {

using base::Result;
using base::Status;
using nlohmann::json;

constexpr std::string_view kFreeing[] = {kJoined, kDropped}, kWaiting[] = {kPending},
                           kEnds[] = {kUploadCompleted, kUploadCancelled};

json file_to_keep(const jobs::File& f) {
  return {f.id, f.name, f.purpose, f.bytes, unix_seconds(f.created), unix_seconds(f.expires)};
}

jobs::File kept_file(const json& from, const std::string& owner) {
  const auto time = [&](size_t at) { return base::WallTime(std::chrono::seconds(from.at(at).get<int64_t>())); };
  return {from.at(0), owner, from.at(1), from.at(2), from.at(3), time(4), time(5)};
}

json copy_to_keep(const UploadRecord::Copy& c) {
  return json::array({c.file, c.order, c.next, c.row, c.rows, c.bytes});
}

// Nothing: the parts that it names are not all there. Whoever completes the upload begins another.
std::optional<UploadRecord::Copy> kept_copy(const json& from, size_t parts) {
  UploadRecord::Copy out;
  out.file = from.at(0).get<std::string>(), out.order = from.at(1).get<std::vector<uint32_t>>();
  out.next = from.at(2).get<size_t>(), out.row = from.at(3).get<uint64_t>();
  out.rows = from.at(4).get<uint64_t>(), out.bytes = from.at(5).get<uint64_t>();
  const bool good = std::all_of(out.order.begin(), out.order.end(), [&](uint32_t place) { return place < parts; });
  return good ? std::optional(std::move(out)) : std::nullopt;
}

std::string document_of(const UploadRecord& r) {
  json out = {{"bytes", r.bytes}, {"name", r.name}, {"purpose", r.purpose}, {"ttl", r.ttl}, {"parts", json::array()}};
  for (const auto& part : r.parts) out["parts"].push_back({part.id, part.bytes});
  if (r.copy) out["copy"] = copy_to_keep(*r.copy);
  if (r.file) out["file"] = file_to_keep(*r.file);
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

// The first of them, if there is one.
Result<std::optional<UploadRecord>> first(Result<std::vector<jobs::Batch>> found) {
  if (!found) return found.error();
  if (found->empty()) return std::optional<UploadRecord>();
  jobs::Batch& batch = found->front();
  UploadRecord unreadable;
  unreadable.batch = batch;
  return std::optional(read_upload(std::move(batch)).value_or(std::move(unreadable)));
}

std::string_view status_of(const UploadRecord& r) {
  if (r.batch.state == kJoined) return kUploadCompleted;
  return r.batch.state == kDropped ? kUploadCancelled : std::string_view(r.batch.state);
}

// Its copy, one part of it, or its state.
Status free_part(jobs::Storage& s, UploadRecord record) {
  return s.atomically([&] {
    if (record.copy) {
      Status status = s.files.remove(record.copy->file);
      record.copy.reset();
      return status.ok() ? save(s, std::move(record)) : status;
    }
    if (record.parts.empty()) {
      record.batch.state = status_of(record);
      return save(s, std::move(record));
    }
    Status status = s.files.remove(record.parts.back().id);
    record.parts.pop_back();
    return status.ok() ? save(s, std::move(record)) : status;
  });
}

}  // namespace

const UploadRecord::Part* UploadRecord::part(std::string_view id) const {
  auto at = std::find_if(parts.begin(), parts.end(), [&](const Part& part) { return part.id == id; });
  return at == parts.end() ? nullptr : &*at;
}

std::optional<UploadRecord> read_upload(jobs::Batch batch) {
  json in = json::parse(batch.document, nullptr, false);
  if (batch.kind != kUploadKind || !in.is_object()) return std::nullopt;
  try {
    UploadRecord out;
    out.bytes = in.at("bytes").get<uint64_t>(), out.ttl = in.at("ttl").get<uint64_t>();
    out.name = in.at("name").get<std::string>(), out.purpose = in.at("purpose").get<std::string>();
    for (const json& part : in.at("parts")) out.parts.push_back({part.at(0), part.at(1)});
    if (in.contains("copy")) out.copy = kept_copy(in["copy"], out.parts.size());
    if (in.contains("file")) out.file = kept_file(in["file"], batch.requester.owner);
    out.batch = std::move(batch);
    return out;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

Result<UploadRecord> find_upload(jobs::Storage& s, const std::string& owner, const std::string& id) {
  auto found = s.batches.find(owner, id);
  if (!found) return found.error();
  auto record = *found ? read_upload(std::move(**found)) : std::nullopt;
  if (!record) return no_such("upload", id).status;
  return *std::move(record);
}

Result<UploadRecord> find_pending(jobs::Storage& s, const std::string& owner, const std::string& id,
                                  base::WallTime now) {
  auto record = find_upload(s, owner, id);
  if (!record) return record;
  if (record->batch.state != kPending)
    return base::invalid("the upload is " + std::string(status_of(*record)) + " already");
  if (record->batch.expires <= now) return base::invalid("the upload has expired");
  return record;
}

Result<UploadRecord> find_to_complete(jobs::Storage& s, const std::string& owner, const std::string& id,
                                      base::WallTime now) {
  auto upload = find_upload(s, owner, id);
  if (upload && upload->file) return upload;
  return find_pending(s, owner, id, now);
}

jobs::Batch batch_of(UploadRecord record) {
  record.batch.document = document_of(record);
  return std::move(record.batch);
}

Status save(jobs::Storage& s, UploadRecord record) {
  auto changed = s.batches.change(batch_of(std::move(record)));
  return changed ? Status() : changed.error();
}

std::string upload_json(const UploadRecord& r) {
  std::string out = "{\"id\":";
  marshal::write_string(out, r.batch.id);
  out += ",\"object\":\"upload\",\"bytes\":" + std::to_string(r.bytes) +
         ",\"created_at\":" + std::to_string(unix_seconds(r.batch.created)) + ",\"filename\":";
  marshal::write_string(out, r.name);
  out += ",\"purpose\":";
  marshal::write_string(out, r.purpose);
  ((out += ",\"status\":\"") += status_of(r)) += "\",\"expires_at\":";
  out += std::to_string(unix_seconds(r.batch.expires)) + ",\"file\":" + (r.file ? file_json(*r.file) : "null");
  return out + "}";
}

Result<bool> UploadDuty::step(jobs::Storage& s, base::WallTime now) {
  auto freeing = first(s.batches.in_states(kUploadKind, kFreeing, 1));
  if (!freeing) return freeing.error();
  if (!*freeing) {
    freeing = first(s.batches.due(kUploadKind, kWaiting, now, 1));
    if (!freeing) return freeing.error();
    if (*freeing) (*freeing)->batch.state = kDropped;
  }
  if (*freeing) {
    Status freed = free_part(s, std::move(**freeing));
    if (!freed.ok()) return freed;
    return true;
  }
  auto over = s.batches.due(kUploadKind, kEnds, now, 1);
  if (!over) return over.error();
  if (over->empty()) return false;
  Status removed = s.atomically([&] { return s.batches.remove(over->front().id); });
  if (!removed.ok()) return removed;
  return true;
}

}  // namespace weir::openai::batches
