// Requests and answers of the models of oip_bench.h.
#pragma once

#include <string>
#include <vector>

#include "bench.h"
#include "inference.pb.h"

namespace weir::oip {

inline std::string floats(std::vector<float> values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

inline inference::ModelInferRequest add_request(int32_t a, int32_t b, std::string id = "") {
  inference::ModelInferRequest r;
  r.set_model_name("add");
  r.set_id(id);
  auto& in = *r.add_inputs();
  in.set_name("a");
  in.set_datatype("INT32");
  in.add_shape(1);
  in.add_shape(2);
  in.mutable_contents()->add_int_contents(a);
  in.mutable_contents()->add_int_contents(b);
  return r;
}

inline inference::ModelInferRequest flow_request(std::string id) {
  auto r = add_request(1, 2, std::move(id));
  r.set_model_name("flow");
  r.mutable_inputs(0)->set_name("n");
  r.mutable_inputs(0)->clear_shape();
  r.mutable_inputs(0)->add_shape(1);
  r.mutable_inputs(0)->mutable_contents()->mutable_int_contents()->Truncate(1);
  return r;
}

}  // namespace weir::oip
