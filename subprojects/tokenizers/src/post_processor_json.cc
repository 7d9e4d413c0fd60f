// The reader of post_processor:
//   {"type": "TemplateProcessing", "single": [item, …], "pair": [item, …], "special_tokens": {name: {"ids": [id, …]}}}
//     item: {"Sequence": {"id": "A" | "B", "type_id"}} | {"SpecialToken": {"id": name, "type_id"}}
//   {"type": "BertProcessing" | "RobertaProcessing", "cls": [token, id], "sep": [token, id]}
//   {"type": "Sequence", "processors": […]}     {"type": "ByteLevel"}
// Of two templates in a sequence the ids around one text add up; two texts are put together by the last.
#include "pipeline_json.h"

namespace tokenizers {

namespace {

using Part = PairPart;

constexpr size_t kMaxMarkers = 64;  // around a text
constexpr uint64_t kMaxType = 1024;

// [token, id] of BertProcessing and RobertaProcessing.
void marker(const JsonFields& fields, std::string_view key, std::vector<uint32_t>& out) {
  auto value = fields.find(key);
  simdjson::dom::array pair;
  uint64_t id = 0;
  if (!value || value->get(pair) || pair.size() != 2 || pair.at(1).get(id) || id >= kNoId)
    return fields.fail(key, " is not a pair of token and id");
  out.push_back(uint32_t(id));
}

// Ids of a SpecialToken of a template, by the table beside it.
void special_token(const JsonFields& item, const JsonFields& table, std::vector<uint32_t>& out) {
  auto name = item.text("id");
  auto entry = name ? table.find(*name) : std::nullopt;
  if (!entry) return item.fail(" names no entry of special_tokens");
  JsonFields token(*entry, table.path() + "." + std::string(name->substr(0, 100)), item.errors());
  auto ids = token.find("ids");
  simdjson::dom::array list;
  if (!ids || ids->get(list)) return token.fail(".ids is not a list");
  for (JsonValue value : list) {
    uint64_t id = 0;
    if (value.get(id) || id >= kNoId) return token.fail(".ids holds what is no id");
    out.push_back(uint32_t(id));
  }
}

// The parts of a template, `single` or `pair`.
std::vector<Part> template_parts(const JsonFields& fields, std::string_view which) {
  std::vector<Part> out;
  size_t markers = 0;
  auto special = fields.find("special_tokens");
  fields.each(which, [&](const JsonFields& item) {
    if (!item.errors().none()) return;
    Part part;
    auto text = item.find("Sequence"), token = item.find("SpecialToken");
    if (!text && !token) return item.fail(" is neither Sequence nor SpecialToken");
    JsonFields inner(text ? *text : *token, item.path() + (text ? ".Sequence" : ".SpecialToken"), item.errors());
    const uint64_t type = inner.number("type_id").value_or(0);
    if (type >= kMaxType) return inner.fail(".type_id is too large");
    part.type = uint32_t(type);
    if (text) {
      part.what = inner.text("id").value_or("A") == "B" ? Part::What::kSecond : Part::What::kFirst;
    } else {
      if (!special) return fields.fail(".special_tokens is missing");
      special_token(inner, JsonFields(*special, fields.path() + ".special_tokens", fields.errors()), part.ids);
    }
    if ((markers += part.ids.size()) > 2 * kMaxMarkers || out.size() > 2 * kMaxMarkers + 2)
      return fields.fail(" puts more than 64 ids at an end of a text");
    out.push_back(std::move(part));
  });
  return out;
}

void read_single(const JsonFields& fields, std::vector<uint32_t>& before, std::vector<uint32_t>& after) {
  bool seen = false;
  for (const Part& part : template_parts(fields, "single")) {
    auto& to = seen ? after : before;
    to.insert(to.end(), part.ids.begin(), part.ids.end());
    if (part.what == Part::What::kIds) continue;
    if (seen) fields.fail(".single has a second Sequence");
    seen = true;
  }
  if (!seen) fields.fail(".single has no Sequence");
}

void read_pair(const JsonFields& fields, std::vector<Part>& out) {
  std::vector<Part> parts = template_parts(fields, "pair");
  size_t first = 0, second = 0;
  for (const Part& part : parts) first += part.what == Part::What::kFirst, second += part.what == Part::What::kSecond;
  if (parts.empty()) return;
  if (first != 1 || second != 1) return fields.fail(".pair has not each of two texts once");
  out = std::move(parts);
}

// [CLS] a [SEP] b [SEP], and <s> a </s></s> b </s>.
std::vector<Part> marked_pair(std::string_view type, const std::vector<uint32_t>& cls,
                              const std::vector<uint32_t>& sep) {
  const bool roberta = type == "RobertaProcessing";
  const uint32_t second = roberta ? 0 : 1;
  std::vector<uint32_t> between = sep;
  if (roberta) between.insert(between.end(), sep.begin(), sep.end());
  return {{Part::What::kIds, 0, cls},
          {Part::What::kFirst, 0, {}},
          {Part::What::kIds, 0, between},
          {Part::What::kSecond, second, {}},
          {Part::What::kIds, second, sep}};
}

void post_processor(const JsonFields& fields, PostProcessor& out, int depth) {
  std::string_view type = type_of(fields);
  std::vector<uint32_t> before, after;
  if (type == "Sequence" && depth < kMaxDepth)
    return fields.each("processors", [&](const JsonFields& part) { post_processor(part, out, depth + 1); });
  if (type == "TemplateProcessing") {
    read_single(fields, before, after);
    read_pair(fields, out.pair);
  } else if (type == "BertProcessing" || type == "RobertaProcessing") {
    marker(fields, "cls", before);
    marker(fields, "sep", after);
    out.pair = marked_pair(type, before, after);
  } else if (type != "ByteLevel") {  // which changes offsets only
    refuse(fields, type);
  }
  if (out.prefix.size() + before.size() > kMaxMarkers || out.suffix.size() + after.size() > kMaxMarkers)
    return fields.fail(" puts more than 64 ids at an end of a text");
  out.prefix.insert(out.prefix.begin(), before.begin(), before.end());
  out.suffix.insert(out.suffix.end(), after.begin(), after.end());
}

}  // namespace

void read_post_processor(const JsonFields& fields, PostProcessor& out) { post_processor(fields, out, 0); }

}  // namespace tokenizers
