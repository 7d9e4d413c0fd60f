// EMBED and TOKENIZE: the text of a node → a vector, or its tokens, as a tensor (tensor_chunk.h).
//
//   EMBED     input text | prompt; output embedding: FP32 [hidden]; of an encoder what it gives for a row of the ids
//   TOKENIZE  input text | prompt; output tokens: UINT32 [n]
#include <memory>
#include <optional>
#include <span>

#include "dialects/evergreen/action.h"
#include "dialects/evergreen/prompt.h"
#include "dialects/evergreen/tensor_chunk.h"
#include "marshal/check.h"
#include "marshal/encoder.h"
#include "marshal/json_cursor.h"
#include "msg/text_codec.h"
#include "wire/text.h"

namespace weir::evergreen {
namespace {

using base::invalid;
using base::Status;
using Step = Cursor::Step;

class Tokenizing final : public bus::OffloadTask {
 public:
  Tokenizing(std::shared_ptr<const msg::TextSpec> spec, std::string text)
      : spec_(std::move(spec)), text_(std::move(text)) {}
  void run() override { ids = spec_->codec->encode(text_, msg::AddSpecial::kYes, cancelled()); }

  std::vector<uint32_t> ids;

 private:
  const std::shared_ptr<const msg::TextSpec> spec_;
  const std::string text_;
};

class TextAction : public OneInputAction {
 public:
  using OneInputAction::OneInputAction;

 protected:
  virtual std::string_view result() const = 0;
  virtual Status use(std::vector<uint32_t>&& ids) = 0;

  Status answer(const msg::Tensor& tensor) {
    Status s;
    if (Output* out = output({result()})) {
      out->begin(tensor_mimetype(tensor));
      s = out->write(tensor.data, Output::More::kNo);
    }
    if (s.ok()) done();
    return s;
  }

 private:
  Status begin() override {
    if (Status s = find(bus::Needs::kText); !s.ok()) return s;
    most_ = max_prompt_bytes(*marshal::tokens_of(spec()));
    auto text = input({"prompt", "text"});
    if (!text) return std::move(text).error();
    cursor_.emplace(session_.graph(), **text, *this);
    return {};
  }

  Status go_on() override {
    while (cursor_) {
      switch (cursor_->next()) {
        case Step::kWait: return {};
        case Step::kFailed: return cursor_->status();
        case Step::kLeafEnd: break;
        case Step::kChunk: {
          if (cursor_->data().empty()) break;
          if (Status s = check_type(cursor_->leaf()); !s.ok()) return s;
          if (text_.size() + cursor_->data().size() > most_) return invalid("the text is too long for the model");
          text_ += cursor_->data().view();
          break;
        }
        case Step::kEnd: return may_begin() ? encode() : Status{};
      }
    }
    return {};
  }

  // Parsed once for each leaf: its type may be long.
  Status check_type(const Node& leaf) {
    if (std::exchange(checked_, leaf.serial()) == leaf.serial()) return {};
    const std::string& mimetype = leaf.metadata()->mimetype;
    const std::string_view type = base_type(mimetype);
    Status s = is_text(type) ? check_charset(mimetype) : invalid("takes text, not '" + std::string(type) + "'");
    if (!s.ok()) s.text = "node '" + std::string(leaf.id()) + "': " + s.text;
    return s;
  }

  uint64_t held() const override { return text_.capacity() + at_work_ + (cursor_ ? cursor_->size() : 0); }

  Status encode() {
    cursor_.reset();
    if (Status s = find(bus::Needs::kText); !s.ok()) return s;
    if (!marshal::valid_utf8(text_)) return invalid("the text is not UTF-8");
    size_t bytes = text_.size();
    at_work_ = text_.capacity();
    return perform(std::make_unique<Tokenizing>(marshal::tokens_of(spec()), std::move(text_)), bytes);
  }
  Status performed(std::unique_ptr<bus::OffloadTask> task) override {
    at_work_ = 0;
    return use(std::move(static_cast<Tokenizing&>(*task).ids));
  }

  std::string text_;
  uint64_t checked_ = 0;  // Node::serial() of the leaf that is being read
  uint64_t at_work_ = 0;  // bytes of the text that becomes tokens
  uint64_t most_ = 0;
};

class Tokenize final : public TextAction {
 public:
  using TextAction::TextAction;

 private:
  std::string_view result() const override { return "tokens"; }
  Status use(std::vector<uint32_t>&& ids) override {
    msg::Tensor tensor{"tokens", msg::DType::kUint32, {int64_t(ids.size())}, {}};
    tensor.data = base::Bytes::copy_of({reinterpret_cast<const char*>(ids.data()), ids.size() * sizeof ids[0]});
    return answer(tensor);
  }
};

class Embed final : public TextAction {
 public:
  using TextAction::TextAction;

 private:
  std::string_view result() const override { return "embedding"; }
  Status use(std::vector<uint32_t>&& ids) override {
    if (ids.empty()) return invalid("the text is empty");
    spec_ = marshal::tokens_of(spec());
    if (spec_->labels > 0) return invalid("the model gives scores of texts, no embeddings");
    if (ids.size() > spec_->max_length)
      return invalid("the text has " + std::to_string(ids.size()) + " tokens; the model's context has " +
                     std::to_string(spec_->max_length));
    spec().text ? ask_generator(std::move(ids)) : ask_encoder(ids);
    if (spec().text) return submit();
    Status s = marshal::check_call(spec(), call());
    return s.ok() ? submit() : s;
  }
  void ask_encoder(std::span<const uint32_t> ids) {
    call().inputs.push_back(marshal::ids_tensor(spec().inputs.at(0).name, ids));
  }
  void ask_generator(std::vector<uint32_t>&& ids) {
    call().generation = std::make_unique<msg::Generation>();
    call().generation->aim = msg::Aim::kEmbed;
    call().generation->append = std::move(ids);
  }
  Status outputs(msg::Outputs&& got) override {
    if (Status s = marshal::check_embedding(got.tensors, spec_->hidden_size); !s.ok()) return s;
    got.tensors[0].name = result();
    got.tensors[0].shape = {int64_t(spec_->hidden_size)};
    return answer(got.tensors[0]);
  }

  std::shared_ptr<const msg::TextSpec> spec_;  // of the model that was asked
};

}  // namespace

std::unique_ptr<Action> make_embed(Session& session, ActionRequest&& request) {
  return std::make_unique<Embed>(session, std::move(request));
}
std::unique_ptr<Action> make_tokenize(Session& session, ActionRequest&& request) {
  return std::make_unique<Tokenize>(session, std::move(request));
}

}  // namespace weir::evergreen
