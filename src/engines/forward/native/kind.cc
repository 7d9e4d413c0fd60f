#include "engines/forward/native/kind.h"

#include <utility>

#include "engines/forward/native/message.h"
#include "engines/forward/native/questions.h"
#include "engines/forward/native/sequence_attempt.h"
#include "engines/forward/oip/grpc_kind.h"
#include "engines/forward/tokenizer_files.h"
#include "generation/fit.h"

namespace weir::forward {
namespace {

using base::Code;
using base::Status;

constexpr generation::TokenRoom kOriginsRoom{.blocks = 1 << 30, .block_size = 1};  // keys and values are the origin's

class Native final : public Kind {
 public:
  explicit Native(std::shared_ptr<const msg::TextSpec> text) : text_(std::move(text)) {}

  net::ClientConn::Http http() const override { return net::ClientConn::Http::k2; }
  std::unique_ptr<Attempt> make_attempt(const Asked& asked, Attempt::Receiver& receiver) const override {
    return asked.call.generation ? make_sequence_attempt(asked, receiver) : tensors_->make_attempt(asked, receiver);
  }
  std::unique_ptr<Questions> make_questions(net::Shard& shard, OriginConn& conn,
                                            const Options& options) const override {
    return make_native_questions(shard, conn, options, text_, tensors_->make_questions(shard, conn, options));
  }
  Status fits(const msg::Call& call, const msg::ModelSpec& spec) const override {
    if (!spec.text) return tensors_->fits(call, spec);
    if (Status status = generation::fits_tokens(call, spec, kOriginsRoom); !status.ok()) return status;
    if (Status status = images_fit(call); !status.ok()) return status;
    const auto& constraint = call.generation->constraint;
    if (!constraint || constraint->form()) return {};
    return base::failure(Code::kUnimplemented, "this form of the answer cannot be had of a forwarded model");
  }

 private:
  const std::shared_ptr<const msg::TextSpec> text_;  // null: there is no tokenizer
  const std::shared_ptr<const Kind> tensors_ = make_oip_grpc();
};

}  // namespace

base::Result<std::shared_ptr<const Kind>> make_native(const Options& options, const std::string& folder) {
  std::shared_ptr<const msg::TextSpec> text;
  if (!options.tokenizer.empty() || !folder.empty()) {
    auto read = read_tokenizer(options, folder);
    if (read)
      text = *std::move(read);
    else if (!options.tokenizer.empty() || read.error().code != Code::kNotFound)
      return read.error();
  }
  return std::make_shared<Native>(std::move(text));
}

}  // namespace weir::forward
