// Any bytes as a form, the Content-Type in the first line: it is refused, or its fields are no more than the body.
#include <cstdint>
#include <string_view>

#include "dialects/grps/form.h"
#include "require.h"

namespace {

using namespace weir;  // NOLINT: a program of one file

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
  require(grps::query_field(body.view(), "k").size() <= body.size(), "a value is no more than the query");
  return 0;
}
