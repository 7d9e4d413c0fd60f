#include "dialects/openai/pieces_text.h"

#include <algorithm>
#include <cstring>

#include "base/encoding.h"
#include "marshal/json_pieces.h"
#include "marshal/json_tensor.h"

namespace weir::openai {
namespace {

constexpr size_t kShortPart = 2 << 10;                          // bytes: it is written at once
constexpr size_t kTextStretch = 4 << 10, kMostOfCharacter = 4;  // bytes of a text that are written at a time

void write_stretch(std::string& out, std::string_view data, size_t& taken, size_t target) {
  const size_t most = std::clamp(target - out.size(), kMostOfCharacter, kTextStretch);
  const std::string_view some = base::cut_text(data.substr(taken), most);
  marshal::write_text_of_string(out, some);
  taken += some.size();
}

void write_id(std::string& out, std::string_view data, size_t& taken) {
  uint32_t id;
  std::memcpy(&id, data.data() + taken, sizeof id);
  if (taken > 0) out += ',';
  marshal::write_number(out, uint64_t(id));
  taken += sizeof id;
}

}  // namespace

void SplicedText::splice(std::string_view data, Form form) {
  if (data.size() > kShortPart) return parts_.push_back({own.size(), form, data});
  size_t taken = 0;
  write(form, data, taken, own, SIZE_MAX);
}

void SplicedText::write(Form form, std::string_view data, size_t& taken, std::string& out, size_t target) {
  if (form == Form::kJson) {
    const std::string_view some = data.substr(taken, target - std::min(target, out.size()));
    out += some;
    taken += some.size();
    return;
  }
  while (taken < data.size() && out.size() < target)
    form == Form::kText ? write_stretch(out, data, taken, target) : write_id(out, data, taken);
}

bool SplicedText::take(std::string& out, size_t target) {
  for (; next_ < parts_.size(); ++next_, part_taken_ = 0) {
    const Part& part = parts_[next_];
    write(Form::kJson, std::string_view(own).substr(0, part.at), own_taken_, out, target);
    if (own_taken_ < part.at) return true;
    write(part.form, part.data, part_taken_, out, target);
    if (part_taken_ < part.data.size()) return true;
  }
  write(Form::kJson, own, own_taken_, out, target);
  return own_taken_ < own.size();
}

void SplicedText::append_to(std::string& out) {
  size_t size = own.size();
  for (const Part& part : parts_) size += part.form == Form::kIds ? 2 * part.data.size() : part.data.size();
  out.reserve(out.size() + size);
  (void)take(out, SIZE_MAX);
}

}  // namespace weir::openai
