// TensorFlow Serving's word for the versions of a model that serve, in the answer to GET /v1/models/{model}: its
// clients and probes wait for it. Two dialects answer that path.
#pragma once

#include <string>

#include "marshal/json_tensor.h"

namespace weir::marshal {

// `,"model_version_status":[…]` of the keys of a map, the last one first.
template <class Versions>
void write_version_status(std::string& out, const Versions& versions) {
  out += ",\"model_version_status\":[";
  for (auto at = versions.rbegin(); at != versions.rend(); ++at) {
    if (out.back() != '[') out += ',';
    out += "{\"version\":";
    write_string(out, at->first);
    out += ",\"state\":\"AVAILABLE\",\"status\":{\"error_code\":\"OK\",\"error_message\":\"\"}}";
  }
  out += ']';
}

}  // namespace weir::marshal
