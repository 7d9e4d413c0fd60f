// Whether a model is ready at another weir, and what it is: Forward.DescribeModel; of models of tensors the Open
// Inference Protocol says the rest. On one shard's thread.
#pragma once

#include <memory>

#include "engines/forward/kind.h"

namespace weir::forward {

// `text`: what the tokenizer's files say; null: there is none. `tensors`: the questions of a model of tensors.
std::unique_ptr<Questions> make_native_questions(net::Shard& shard, OriginConn& conn, const Options& options,
                                                 std::shared_ptr<const msg::TextSpec> text,
                                                 std::unique_ptr<Questions> tensors);

}  // namespace weir::forward
