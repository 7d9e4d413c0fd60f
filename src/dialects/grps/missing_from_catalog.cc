#include <algorithm>

#include "base/encoding.h"
#include "dialects/grps/grps.h"
#include "dialects/grps/mapping.h"

namespace weir::grps {
namespace {

using Tensors = std::vector<msg::TensorSpec>;

void check_tensor(const std::string& name, std::string_view what, const Tensors& tensors, const std::string& model,
                  const std::string& place, std::vector<std::string>& wrong) {
  std::vector<std::string_view> names;
  for (const auto& tensor : tensors) names.push_back(tensor.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string text = place + "model '" + model + "' has no " + std::string(what) + " '" + name + "'";
  if (auto near = base::near_miss(name, names); !near.empty()) {
    text += ", did you mean '" + std::string(near) + "'?";
  } else {
    text += names.empty() ? "; it has none" : "; it has";
    for (auto n : names) text += (n == names.front() ? " " : ", ") + std::string(n);
  }
  wrong.push_back(std::move(text));
}

}  // namespace

std::vector<std::string> missing_from_catalog(const Options& options, const bus::Catalog& catalog) {
  std::vector<std::string> wrong;
  for (const RouteSpec& route : options.routes) {
    if (route.model.empty() && catalog.default_model.empty()) continue;  // the request names it
    std::string place = "grps.routes: " + route.method + ' ' + route.path + ": ";
    auto served = find_model(catalog, route.model);
    if (!served) {
      wrong.push_back(place + served.error().text);
      continue;
    }
    const msg::ModelSpec& spec = (*served)->spec;
    if (spec.any_tensors) continue;
    for (const auto& [input, source] : route.inputs) check_tensor(input, "input", spec.inputs, spec.name, place, wrong);
    for (const auto& [pointer, output] : route.outputs)
      check_tensor(output, "output", spec.outputs, spec.name, place, wrong);
    if (!route.raw_output.empty()) check_tensor(route.raw_output, "output", spec.outputs, spec.name, place, wrong);
  }
  return wrong;
}

}  // namespace weir::grps
