#include "jinja/template.h"

#include "evaluation.h"
#include "parser.h"
#include "utf8.h"
#include "value_json.h"

namespace jinja {

namespace {

constexpr size_t kMaxSource = 1u << 20;
constexpr size_t kMaxMessage = 1000;

// A template may say anything to whoever reads the error, but not at any length.
Error shortened(Error error) {
  if (error.message.size() <= kMaxMessage) return error;
  size_t size = kMaxMessage;
  U8_TRUNCATE_IF_INCOMPLETE(error.message.data(), 0u, size);
  error.message.resize(size);
  error.message += "...";
  return error;
}

}  // namespace

struct Template::Parts {
  ParsedTemplate parsed;
};

Template::Template(std::unique_ptr<const Parts> parts) : parts_(std::move(parts)) {}
Template::~Template() = default;

Result<std::shared_ptr<const Template>> Template::parse(std::string_view source) {
  if (source.size() > kMaxSource) return Error{Error::Kind::kTemplate, "the template is larger than 1 MiB"};
  try {
    auto parts = std::make_unique<Parts>(Parts{jinja::parse(source)});
    return std::shared_ptr<const Template>(new Template(std::move(parts)));
  } catch (Exception& exception) {
    return shortened(std::move(exception.error));
  }
}

template <class Json>
Result<std::string> Template::render_any(const Json& variables, const Budget& budget) const {
  try {
    Value values = from_json(variables);
    if (!values.dict()) return Error{Error::Kind::kTemplate, "the variables are not an object"};
    return Evaluation(parts_->parsed, values, budget).run();
  } catch (Exception& exception) {
    return shortened(std::move(exception.error));
  }
}

Result<std::string> Template::render(const nlohmann::json& variables, const Budget& budget) const {
  return render_any(variables, budget);
}
Result<std::string> Template::render(const nlohmann::ordered_json& variables, const Budget& budget) const {
  return render_any(variables, budget);
}

}  // namespace jinja
