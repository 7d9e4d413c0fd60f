#include "marshal/generation_config.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "marshal/field_reader.h"
#include "marshal/generation_params.h"

namespace weir::marshal {
namespace {

// One id, or a list of them.
bool read_ends(FieldReader& fields, uint32_t vocabulary, std::vector<uint32_t>& out) {
  constexpr size_t kMaxEnds = 1024;
  const std::string_view name = "eos_token_id";
  if (fields.none()) return true;
  if (!fields.json().at_number()) {
    if (!fields.ids(name, kMaxEnds, out)) return false;
    auto bad = std::find_if(out.begin(), out.end(), [=](uint32_t id) { return id >= vocabulary; });
    return bad == out.end() || fields.fail(name, "eos_token_id must be ids below " + std::to_string(vocabulary));
  }
  return fields.whole(name, 0, int64_t(vocabulary) - 1, out.emplace_back());
}

}  // namespace

base::Status read_generation_config(std::string_view text, msg::TextSpec& spec) {
  if (text.empty()) return {};
  constexpr auto kFile = Protocol::kModelFile;
  JsonCursor json(text);
  FieldReader fields(json);
  GenerationParams params;
  std::vector<uint32_t> ends;
  bool good = json.object([&](std::string_view key) {
    const std::string name(key);
    if (name == "eos_token_id") return read_ends(fields, spec.vocabulary, ends);
    const auto* row = find_param(kFile, name);
    return row ? read_param(fields, kFile, *row, name, params) : json.skip();
  }) && json.finish();
  if (!good) return base::invalid("generation_config.json: " + fields.error().text);
  msg::Generation generation;
  apply(params, generation);
  spec.defaults = std::move(generation.sampling);
  if (!ends.empty()) spec.eos_ids = std::move(ends);
  return {};
}

}  // namespace weir::marshal
