// Clients ask one model the same again and again, with other numbers: the text around the numbers is read once, and is
// written once. A request of 16 floats takes 22,000 instructions in the tests' build, and 4,800 of them were spent on
// text that the request before had as well.
//
//   {"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":[ … ]}]}
//
// A template stands for exactly what the readers and writers of json_infer.h make of the same text. What differs from
// it in any way is none of its business: they have it then. Of one shard.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "dialects/oip/infer_options.h"
#include "dialects/oip/reply.h"
#include "msg/call.h"
#include "msg/tensor.h"

namespace weir::oip {

// Where the elements of an input's data are in the text: what is between the brackets.
struct DataSpan {
  size_t from = 0, to = 0;
};

// When to learn: clients whose texts differ each time would pay for it each time, so after every one that was learned
// in vain twice as many pass by, up to 63.
class LearningPace {
 public:
  bool due() {
    if (passing_ > 0) return --passing_, false;
    passing_ = pace_;
    pace_ = pace_ < kMost ? uint8_t(2 * pace_ + 1) : kMost;
    return true;
  }
  void hit() { pace_ = passing_ = 0; }

 private:
  static constexpr uint8_t kMost = 63;
  uint8_t pace_ = 0, passing_ = 0;
};

class RequestTemplate {
 public:
  static constexpr size_t kMostText = 1024;  // without the elements
  static constexpr size_t kMostInputs = 4;

  // Fills `call`, which has no inputs and outputs, and `options` as the request that was learned has done, with the
  // numbers of this one. False: the text is another one, or numbers are not plain (marshal/number_run.h), and nothing
  // has happened.
  bool read(std::string_view json, base::SlabSource& slabs, msg::Call& call, InferOptions& options);
  // `json` has been read into `call` and `options`, and the data of its inputs lay at `data`. Learns it if all of them
  // begin with a number, not with another array, and nothing but names, types and shapes is said beside them; that all
  // numbers are plain is what read() finds out.
  void learn(std::string_view json, std::span<const DataSpan> data, const msg::Call& call, const InferOptions& options);

 private:
  struct Input {
    std::string name;
    msg::DType dtype = msg::DType::kInvalid;
    msg::Shape shape;
    size_t elements = 0;
    size_t text = 0;  // bytes of text_ before its elements, behind those of the input before
  };
  static base::Bytes cells(const Input& in, std::string_view& text, base::SlabSource& slabs);
  static std::vector<Input> inputs_of(std::string_view json, std::span<const DataSpan> data, const msg::Call& call);

  std::string text_;
  std::vector<Input> inputs_;  // empty: nothing has been learned
  std::vector<std::string> outputs_;
  LearningPace pace_;
};

class AnswerTemplate {
 public:
  static constexpr size_t kMostData = 64 << 10;  // bytes of all tensors

  // Appends the JSON of `reply`. False: model, version, tensors or shapes are others than those that were learned, or
  // the answer has parameters or another form; nothing has happened.
  bool write(const InferReply& reply, const OutputForms& forms, std::string& out);
  // Learns what write_infer() says of such an answer, unless it is one of those that write() never takes.
  void learn(const InferReply& reply, const OutputForms& forms);

 private:
  struct Output {
    std::string name;
    msg::DType dtype = msg::DType::kInvalid;
    msg::Shape shape;
    std::string text;  // all that stands before its elements, behind those of the output before
  };
  std::string model_, version_, text_;  // the text up to the id
  std::vector<Output> outputs_;
  LearningPace pace_;
};

// Those of the models that are asked; two models may share a place.
class JsonTemplates {
 public:
  struct Place {
    RequestTemplate request;
    AnswerTemplate answer;
  };
  Place& of(const void* model) { return places_[(reinterpret_cast<uintptr_t>(model) >> 6) % places_.size()]; }

 private:
  std::array<Place, 8> places_;
};

}  // namespace weir::oip
