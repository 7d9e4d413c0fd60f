#include "engines/forward/signature.h"

#include <string>

#include "base/encoding.h"

namespace weir::forward {
namespace {

using base::Status;

Status differs(std::string text) { return base::failure(base::Code::kFailedPrecondition, std::move(text)); }

std::string named(const std::string& what, const msg::TensorSpec& tensor) {
  return what + " '" + base::presentable(tensor.name, 64) + "'";
}

// A dimension that is any may stand for the one that the other has.
bool fit(const msg::Shape& a, const msg::Shape& b) {
  if (a.rank() != b.rank()) return false;
  for (size_t i = 0; i < a.rank(); ++i)
    if (a[i] != b[i] && a[i] >= 0 && b[i] >= 0) return false;
  return true;
}

Status same_tensors(const std::string& what, const msg::ModelSpec& here, const std::vector<msg::TensorSpec>& ours,
                    const msg::ModelSpec& there, const std::vector<msg::TensorSpec>& theirs) {
  if (ours.size() != theirs.size())
    return differs("it has " + std::to_string(theirs.size()) + ' ' + what + "s, the model here " +
                   std::to_string(ours.size()));
  for (const auto& one : ours) {
    const msg::TensorSpec* other = nullptr;
    for (const auto& candidate : theirs)
      if (candidate.name == one.name) other = &candidate;
    if (!other) return differs("it has no " + named(what, one));
    if (!other->takes(one.dtype)) return differs("its " + named(what, one) + " is of another type");
    const msg::Shape our_shape = here.public_shape(one), their_shape = there.public_shape(*other);
    if (!fit(our_shape, their_shape))
      return differs("its " + named(what, one) + " has shape " + their_shape.text() + ", the one here " +
                     our_shape.text());
  }
  return {};
}

Status same_text(const msg::TextSpec& here, const msg::TextSpec& there) {
  if (here.vocabulary != there.vocabulary)
    return differs("its vocabulary has " + std::to_string(there.vocabulary) + " tokens, the one here " +
                   std::to_string(here.vocabulary));
  if (here.vision && !there.vision) return differs("it takes no images, and the model here does");
  if (there.max_length < here.max_length)
    return differs("its context has " + std::to_string(there.max_length) + " positions, the one here " +
                   std::to_string(here.max_length));
  return {};
}

}  // namespace

Status same_signature(const msg::ModelSpec& here, const msg::ModelSpec& there) {
  if (!here.text != !there.text) return differs("one of both makes tokens, and the other does not");
  if (here.text) return same_text(*here.text, *there.text);
  if (here.decoupled != there.decoupled) return differs("one of both answers any number of times");
  if (here.max_batch > there.max_batch && there.max_batch > 0)
    return differs("its batches have " + std::to_string(there.max_batch) + " rows, those here " +
                   std::to_string(here.max_batch));
  // A model that takes anything may say nothing of itself.
  if ((here.inputs.empty() && here.outputs.empty()) || there.any_tensors) return {};
  auto status = same_tensors("input", here, here.inputs, there, there.inputs);
  return status.ok() ? same_tensors("output", here, here.outputs, there, there.outputs) : status;
}

}  // namespace weir::forward
