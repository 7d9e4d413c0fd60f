// render(): a chat template's text, within a TextBudget.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/status.h"
#include "jinja/template.h"
#include "msg/text_codec.h"

namespace weir::text {

// The budget's memory is charged for what the template makes, while it makes it; then for the text alone, by its
// capacity, or for nothing behind an error. Errors: those of TextCodec::render_chat().
base::Result<std::string> render(const jinja::Template& chat, const nlohmann::ordered_json& variables,
                                 const msg::TextBudget& budget);

}  // namespace weir::text
