#include "text/chat_template.h"

#include "text/jinja/evaluation.h"
#include "text/jinja/parser.h"
#include "text/jinja/value_json.h"
#include "text/utf8.h"

namespace weir::text {

namespace {

constexpr size_t kLongestSource = 1u << 20;
constexpr size_t kLongestFault = 1000;

// A template may say anything to clients, but not at any length.
base::Status shortened(base::Status fault) {
  if (fault.text.size() <= kLongestFault) return fault;
  fault.text.resize(kLongestFault);
  fault.text.resize(fault.text.size() - utf8_cut_tail(fault.text));
  fault.text += "...";
  return fault;
}

}  // namespace

struct ChatTemplate::Parts {
  jinja::Template parsed;
};

ChatTemplate::ChatTemplate(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
ChatTemplate::~ChatTemplate() = default;

base::Result<std::shared_ptr<const ChatTemplate>> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kLongestSource) return base::invalid("the chat template is larger than 1 MiB");
  try {
    auto parts = std::make_unique<Parts>(Parts{jinja::parse(source)});
    return std::shared_ptr<const ChatTemplate>(new ChatTemplate(std::move(parts)));
  } catch (jinja::Fault& fault) {
    fault.status.text = "the chat template, " + fault.status.text;
    return shortened(std::move(fault.status));
  }
}

template <class Json>
base::Result<std::string> ChatTemplate::render_any(const Json& variables, const Budget& budget) const {
  try {
    jinja::Value values = jinja::from_json(variables);
    if (!values.dict()) return base::invalid("the variables of a chat template are an object");
    return jinja::Evaluation(parts_->parsed, values, budget).run();
  } catch (jinja::Fault& fault) {
    return shortened(std::move(fault.status));
  }
}

base::Result<std::string> ChatTemplate::render(const nlohmann::json& variables, const Budget& budget) const {
  return render_any(variables, budget);
}
base::Result<std::string> ChatTemplate::render_ordered(const nlohmann::ordered_json& variables,
                                                       const Budget& budget) const {
  return render_any(variables, budget);
}

}  // namespace weir::text
