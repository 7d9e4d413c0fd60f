// Tools that Anthropic has given a schema and that the client runs: {"type":"bash_20250124","name":"bash"}. Models of
// other makers are told the schema, which the request does not have.
#include <algorithm>
#include <array>

#include "dialects/openai/anthropic/blocks.h"

namespace weir::openai::anthropic {
namespace {

struct ClientToolSchema {
  std::string_view type;  // behind it comes "_" and a date
  std::string_view description, parameters;
};
constexpr std::array<ClientToolSchema, 3> kSchemas{{
    {"bash", "Runs a command in a shell that goes on from call to call; restart begins a new one.",
     R"({"type":"object","properties":{"command":{"type":"string"},"restart":{"type":"boolean"}}})"},
    {"text_editor",
     "Views and edits text files: view shows a file or a folder, create writes a new file (file_text), str_replace "
     "replaces old_str, which stands in the file once, by new_str, and insert puts insert_text behind line "
     "insert_line.",
     R"({"type":"object","properties":{
       "command":{"type":"string","enum":["view","create","str_replace","insert"]},"path":{"type":"string"},
       "view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2},
       "file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
       "insert_line":{"type":"integer"},"insert_text":{"type":"string"}},"required":["command","path"]})"},
    {"memory",
     "Keeps notes as files below /memories: view shows a file or the folder, create writes a file (file_text), "
     "str_replace replaces old_str by new_str, insert puts insert_text behind line insert_line, delete removes path, "
     "and "
     "rename moves old_path to new_path.",
     R"({"type":"object","properties":{
       "command":{"type":"string","enum":["view","create","str_replace","insert","delete","rename"]},
       "path":{"type":"string"},"view_range":{"type":"array","items":{"type":"integer"},"minItems":2,"maxItems":2},
       "file_text":{"type":"string"},"old_str":{"type":"string"},"new_str":{"type":"string"},
       "insert_line":{"type":"integer"},"insert_text":{"type":"string"},
       "old_path":{"type":"string"},"new_path":{"type":"string"}},"required":["command"]})"},
}};

// "bash" of "bash_20250124"; all of it where no date follows.
std::string_view undated(std::string_view type) {
  constexpr size_t kDate = 8;
  const size_t bar = type.rfind('_');
  const bool dated =
      bar != type.npos && type.size() - bar - 1 == kDate &&
      std::all_of(type.begin() + ptrdiff_t(bar) + 1, type.end(), [](char c) { return c >= '0' && c <= '9'; });
  return dated ? type.substr(0, bar) : type;
}

}  // namespace

bool describe_client_tool(std::string_view type, OrderedJson& function) {
  const std::string_view name = undated(type);
  auto row = std::find_if(kSchemas.begin(), kSchemas.end(), [name](const auto& one) { return one.type == name; });
  if (row == kSchemas.end()) return false;
  function["description"] = row->description;
  function["parameters"] = OrderedJson::parse(row->parameters);
  return true;
}

}  // namespace weir::openai::anthropic
