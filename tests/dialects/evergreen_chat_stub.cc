// Stands in for the chat templates until their room has them.
#include <nlohmann/json.hpp>
#include "text/processor.h"
namespace weir::text {
struct ChatTemplate::Parts {};
__attribute__((weak)) ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> p) : parts_(std::move(p)) {}
__attribute__((weak)) ChatTemplate::~ChatTemplate() {}
__attribute__((weak)) base::Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view) {
  return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::make_unique<const Parts>()));
}
__attribute__((weak)) base::Result<std::string> ChatTemplate::render(const nlohmann::json&) const {
  return std::string();
}
__attribute__((weak)) base::Result<std::string> render_chat(const Processor&, const nlohmann::json& messages,
                                                            const nlohmann::json&, const ChatOptions&) {
  std::string out;
  for (auto& m : messages)
    out += "[" + m["role"].get<std::string>() + "]" + m["content"].get<std::string>() + "<|end|>";
  return out + "[assistant]";
}
}  // namespace weir::text
