// Any bytes as a form, the Content-Type in the first line: it is refused, or its fields are no more than the body.
// Parts that come in pieces are the same as those in one.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "dialects/grps/form_data.h"
#include "marshal/multipart.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

struct Parts final : marshal::PartListener {
  base::Status on_part(marshal::PartHead head) override {
    text += head.name + '\n' + head.filename + '\n';
    return {};
  }
  base::Status on_octets(std::string_view octets) override {
    text += octets;
    return {};
  }
  base::Status on_part_end() override {
    text += "\nend\n";
    return {};
  }
  std::string text;
};

// The parts of the body in pieces of so many bytes; "refused" where it is no form.
std::string read(const std::string& boundary, std::string_view body, size_t piece) {
  Parts parts;
  marshal::MultipartReader reader(boundary, parts);
  for (size_t at = 0; at < body.size(); at += piece)
    if (!reader.read(body.substr(at, piece)).ok()) return "refused";
  require(parts.text.size() <= 32 + 16 * body.size(), "parts are no more than the body");
  return reader.finish().ok() ? parts.text : "refused";
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string_view all(reinterpret_cast<const char*>(data), size);
  size_t line = all.find('\n');
  if (line == all.npos) return 0;
  auto body = base::Bytes::copy_of(all.substr(line + 1));
  auto form = grps::FormData::read(all.substr(0, line), body);
  if (form) {
    require(grps::FormData::is_one(all.substr(0, line)), "what is read says that it is a form");
    require(form->fields().size() <= grps::FormData::kMaxFields, "it has few fields");
    size_t total = 0;
    for (const auto& field : form->fields()) {
      total += field.name.size() + field.value.size();
      require(form->find(field.name) != nullptr, "each is found");
    }
    require(total <= body.size(), "they are no more than the body");
  }
  if (auto boundary = marshal::boundary_of(all.substr(0, line)); boundary && size < 4096) {
    const std::string whole = read(*boundary, body.view(), std::max<size_t>(body.size(), 1));
    for (size_t piece : {1, 7}) require(read(*boundary, body.view(), piece) == whole, "pieces are as one");
  }
  require(grps::query_field(body.view(), "k").size() <= body.size(), "a value is no more than the query");
  return 0;
}
