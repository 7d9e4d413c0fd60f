#include "text/model_json.h"

#include <nlohmann/json.hpp>
#include <string>

#include "text/processor.h"

namespace weir::text {

base::Result<nlohmann::json> parse_model_json(std::string_view json, std::string_view file) {
  if (crowded(json, SIZE_MAX, kDeepestModelJson))
    return base::invalid(std::string(file) + " is nested deeper than " + std::to_string(kDeepestModelJson) + " levels");
  return base::Result<nlohmann::json>(boost::system::in_place_value,
                                      nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false));
}

}  // namespace weir::text
