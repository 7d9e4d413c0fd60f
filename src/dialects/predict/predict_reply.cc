#include "dialects/predict/predict_reply.h"

#include "marshal/check.h"
#include "marshal/json_nested.h"

namespace weir::predict {
namespace {

using base::Status;
using msg::Tensor;

marshal::NestedStyle style_of(const Tensor& tensor) {
  return {marshal::bytes_text(tensor), marshal::Base64Form::kObject};
}

// Every output has one value for each row.
Status check_rows(const std::vector<Tensor>& outputs) {
  for (const Tensor& t : outputs) {
    if (t.shape.rank() > 0 && t.shape[0] == outputs[0].shape[0]) continue;
    return base::invalid("output '" + t.name + "' has shape " + t.shape.text() +
                         ", and is not one value for each of the instances: send 'inputs' in place of 'instances'");
  }
  return {};
}

void write_columns(std::string& out, const std::vector<Tensor>& outputs) {
  out += "{\"outputs\":";
  if (outputs.size() == 1) {
    marshal::write_nested(out, outputs[0], style_of(outputs[0]));
  } else {
    for (const Tensor& t : outputs) {
      out += &t == outputs.data() ? '{' : ',';
      marshal::write_string(out, t.name);
      out += ':';
      marshal::write_nested(out, t, style_of(t));
    }
    out += '}';
  }
  out += '}';
}

void write_rows(std::string& out, const std::vector<Tensor>& outputs) {
  std::vector<marshal::NestedRows> columns;
  for (const Tensor& t : outputs) columns.emplace_back(t, style_of(t));
  out += "{\"predictions\":[";
  for (int64_t row = 0; row < outputs[0].shape[0]; ++row) {
    out += row ? ",{" : "{";
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (i) out += ',';
      marshal::write_string(out, outputs[i].name);
      out += ':';
      columns[i].write(out);
    }
    out += '}';
  }
  out += "]}";
}

}  // namespace

base::Result<std::string> write_predict(PredictLayout form, const std::vector<Tensor>& outputs) {
  if (outputs.empty()) return base::failure(base::Code::kInternal, "the model made no outputs");
  Status status;
  for (const Tensor& t : outputs)
    if (status.ok()) status = marshal::check_nesting(t, "output");
  if (status.ok() && form == PredictLayout::kRows) status = check_rows(outputs);
  if (!status.ok()) return status;
  std::string out;
  if (form == PredictLayout::kColumns) {
    write_columns(out, outputs);
  } else if (outputs.size() > 1) {
    write_rows(out, outputs);
  } else {
    out += "{\"predictions\":";
    marshal::write_nested(out, outputs[0], style_of(outputs[0]));
    out += '}';
  }
  return out;
}

uint64_t most_text(PredictLayout form, const std::vector<Tensor>& outputs) {
  uint64_t bytes = 32;
  for (const Tensor& t : outputs) {
    const bool each_row = form == PredictLayout::kRows && outputs.size() > 1 && t.shape.rank() > 0;
    const uint64_t names = each_row ? uint64_t(t.shape[0]) : outputs.size() > 1 ? 1 : 0;
    bytes += marshal::most_nested(t) + names * (6 * t.name.size() + 6);  // a control character takes six
  }
  return bytes;
}

}  // namespace weir::predict
