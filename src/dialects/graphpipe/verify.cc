#include "dialects/graphpipe/verify.h"

#include <limits>

#include "base/units.h"

namespace weir::graphpipe {
namespace {

using flatbuffers::Table;
using flatbuffers::uoffset_t;
using Strings = flatbuffers::Vector<flatbuffers::Offset<flatbuffers::String>>;

constexpr size_t kShortest = 12;  // a root offset, a vtable of nothing, a table of nothing

// flatbuffers' own Verify functions would walk a shared vector once per reference, however long that takes: these walk
// what they can pay for. Everything answers "go on".
class Walk {
 public:
  Walk(const base::Bytes& body, uint64_t budget)
      : begin_(reinterpret_cast<const uint8_t*>(body.data())),
        verifier_(begin_, body.size(), kMaxDepth, kMaxTables),
        left_(budget) {}

  bool broke() const { return broke_; }

  const fb::Request* root() {
    uoffset_t at = verifier_.VerifyOffset(0);
    if (at == 0) return nullptr;
    auto* request = reinterpret_cast<const fb::Request*>(begin_ + at);
    return this->request(*request) ? request : nullptr;
  }

 private:
  template <class T>
  static const Table& table(const T& t) {  // generated classes derive privately from it
    return reinterpret_cast<const Table&>(t);
  }

  bool charge(uint64_t bytes) {
    broke_ = bytes > left_;
    if (!broke_) left_ -= bytes;
    return !broke_;
  }

  bool request(const fb::Request& r) {
    const Table& t = table(r);
    if (!t.VerifyTableStart(verifier_) || !t.VerifyField<uint8_t>(verifier_, fb::Request::VT_REQ_TYPE, 1) ||
        !t.VerifyOffset(verifier_, fb::Request::VT_REQ))
      return false;
    if (r.req() && r.req_type() == fb::Req_InferRequest && !infer(*r.req_as_InferRequest())) return false;
    if (r.req() && r.req_type() == fb::Req_MetadataRequest &&
        !(table(*r.req_as_MetadataRequest()).VerifyTableStart(verifier_) && verifier_.EndTable()))
      return false;
    return verifier_.EndTable();
  }

  bool infer(const fb::InferRequest& r) {
    using R = fb::InferRequest;
    const Table& t = table(r);
    return t.VerifyTableStart(verifier_) && t.VerifyOffset(verifier_, R::VT_CONFIG) && string(r.config()) &&
           t.VerifyOffset(verifier_, R::VT_INPUT_NAMES) && strings(r.input_names()) &&
           t.VerifyOffset(verifier_, R::VT_INPUT_TENSORS) && tensors(r.input_tensors()) &&
           t.VerifyOffset(verifier_, R::VT_OUTPUT_NAMES) && strings(r.output_names()) && verifier_.EndTable();
  }

  bool tensors(const flatbuffers::Vector<flatbuffers::Offset<fb::Tensor>>* all) {
    if (!all) return true;
    if (!verifier_.VerifyVector(all)) return false;
    for (uoffset_t i = 0; i < all->size(); ++i)
      if (!tensor(*all->Get(i))) return false;
    return true;
  }

  bool tensor(const fb::Tensor& r) {
    using R = fb::Tensor;
    const Table& t = table(r);
    return t.VerifyTableStart(verifier_) && t.VerifyField<uint8_t>(verifier_, R::VT_TYPE, 1) &&
           t.VerifyOffset(verifier_, R::VT_SHAPE) && verifier_.VerifyVector(r.shape()) &&
           t.VerifyOffset(verifier_, R::VT_DATA) && verifier_.VerifyVector(r.data()) &&
           (!r.data() || charge(r.data()->size())) && t.VerifyOffset(verifier_, R::VT_STRING_VAL) &&
           strings(r.string_val()) && verifier_.EndTable();
  }

  bool strings(const Strings* all) {
    if (!all) return true;
    if (!verifier_.VerifyVector(all)) return false;
    for (uoffset_t i = 0; i < all->size(); ++i)
      if (!string(all->Get(i))) return false;
    return true;
  }

  // Go's client writes the elements of a String tensor as vectors of bytes: no zero follows them, and nothing here
  // reads one.
  bool string(const flatbuffers::String* s) {
    // Until it is verified it may lie anywhere: it is not converted as an object would be.
    auto* bytes = reinterpret_cast<const flatbuffers::Vector<uint8_t>*>(s);
    return !s || (verifier_.VerifyVector(bytes) && charge(sizeof(uoffset_t) + bytes->size()));
  }

  const uint8_t* begin_;
  flatbuffers::Verifier verifier_;
  uint64_t left_;
  bool broke_ = false;
};

}  // namespace

base::Result<const fb::Request*> verify(const base::Bytes& body, uint64_t budget) {
  if (body.size() < kShortest || body.size() >= size_t(std::numeric_limits<flatbuffers::soffset_t>::max()))
    return base::invalid("not a GraphPipe request: " + std::to_string(body.size()) + " bytes");
  Walk walk(body, budget);
  if (const fb::Request* request = walk.root()) return request;
  if (walk.broke())
    return base::failure(base::Code::kResourceExhausted,
                         "the request denotes more than " + base::show_size(budget) + " of tensors and text");
  return base::invalid("not a GraphPipe request: the flatbuffer does not verify");
}

}  // namespace weir::graphpipe
