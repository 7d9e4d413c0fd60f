// Any bytes as a message in JSON: what is taken the library takes, too, as the same message; and a message is no longer
// than four times its text (an FP64 in two characters).
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/util/message_differencer.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "inference.pb.h"
#include "marshal/message_reader.h"
#include "require.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;  // NOLINT: a program of one file
  std::string json(reinterpret_cast<const char*>(data), size);
  auto read = marshal::read_message(*inference::ModelInferRequest::descriptor(), json, size_t(1) << 20);
  require(read.has_value(), "a request has no field that is the library's");
  if (!*read) return 0;
  require((*read)->size() <= 4 * size + 16, "a message is not much longer than its text");
  inference::ModelInferRequest ours, theirs;
  require(ours.ParseFromString(**read), "what is made is a message");
  require(google::protobuf::util::JsonStringToMessage(json, &theirs).ok(), "the library takes the text, too");
  // Compared as bytes: NaN is not equal to itself.
  google::protobuf::util::MessageDifferencer differ;
  differ.set_float_comparison(google::protobuf::util::MessageDifferencer::EXACT);
  google::protobuf::util::DefaultFieldComparator comparator;
  comparator.set_treat_nan_as_equal(true);
  differ.set_field_comparator(&comparator);
  require(differ.Compare(ours, theirs), "as the same message");
  return 0;
}
