// InferResponse, laid out by hand so that tensors need not be copied into it. flatc's builder writes back to front into
// one buffer; here the head comes first and the data of the tensors makes up the tail:
//
//   0   u32 root                 -> the InferResponse
//   4   vtables                  of InferResponse, of a numeric and of a String Tensor
//   32  InferResponse            soffset, u32 output_tensors
//   40  u32 count, count × u32   -> Tensors, two of which may be one
//   …   per tensor: Tensor {soffset, u32 shape, u32 data or string_val, u8 type, 3 × 0}, its shape, its strings
//   …   per numeric tensor: u32 length, then the bytes at a multiple of kDataAlign
//
// An offset counts from where it is written. https://flatbuffers.dev/flatbuffers_internals.html
#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/check.h"
#include "base/memory_ledger.h"
#include "dialects/graphpipe/reply.h"
#include "dialects/graphpipe/types.h"

namespace weir::graphpipe {
namespace {

using msg::DType;

constexpr size_t kLeastShared = 4096;      // bytes of a tensor that is sent as it is; a smaller one is copied
constexpr uint64_t kLongest = 0x7ffffffe;  // a flatbuffer ends below 2^31

constexpr size_t kResponseVtable = 4, kNumericVtable = 10, kStringVtable = 20, kResponse = 32;
constexpr uint16_t kVtables[] = {6,  8,  4,             // InferResponse: output_tensors
                                 10, 16, 12, 4, 8,      // Tensor: type, shape, data
                                 12, 16, 12, 4, 0, 8};  // Tensor: type, shape, -, string_val
constexpr size_t kShapeField = 4, kDataField = 8;

// The most bytes that a tensor has outside of pieces of its own.
uint64_t text_bytes(const msg::Tensor& t) {
  constexpr uint64_t kTable = 3 + 16, kShape = 7 + 4, kNumbers = kDataAlign - 1 + 4, kStrings = 4;
  const uint64_t head = kTable + kShape + 8 * t.shape.rank();
  if (t.dtype == DType::kBytes) return head + kStrings + strings_bytes(t);
  return head + kNumbers + (t.data.size() < kLeastShared ? t.data.size() : 0);
}

class Layout {
 public:
  Layout(const std::vector<msg::Tensor>& tensors, std::span<const size_t> order, base::SlabSource& slabs)
      : slabs_(slabs) {
    for (size_t i : order) {
      auto at = std::find(tensors_.begin(), tensors_.end(), &tensors[i]);
      slots_.push_back(size_t(at - tensors_.begin()));
      if (at == tensors_.end()) tensors_.push_back(&tensors[i]);
    }
  }

  base::Result<std::vector<base::Bytes>> write() {
    if (auto status = make_room(); !status.ok()) return status;
    if (auto status = head(); !status.ok()) return status;
    if (auto status = place_data(); !status.ok()) return status;
    for (size_t i = 0; i < tensors_.size(); ++i)
      if (tensors_[i]->dtype != DType::kBytes) data(i);
    flush();
    return std::move(pieces_);
  }

 private:
  // All text lies in one slab, which is charged before anything is written.
  base::Status make_room() {
    uint64_t bytes = kResponse + 12 + 4 * slots_.size();
    for (const msg::Tensor* t : tensors_) bytes += std::min(text_bytes(*t), kLongest);
    if (bytes > kLongest) return too_long();
    base::Slab* slab = bytes < base::kLeastCharged ? base::heap_slab(size_t(bytes)) : take_now(slabs_, size_t(bytes));
    text_ = base::Bytes(slab, slab->data, slab->capacity);
    begin_ = slab->data;
    return {};
  }

  std::byte* extend(size_t n) {
    base::check(n <= text_.size() - written_, "the text of an answer has room");
    return begin_ + std::exchange(written_, written_ + n);
  }
  void put(const void* from, size_t n) {
    if (n > 0) std::memcpy(extend(n), from, n);
  }
  void put_zeros(size_t n) { std::memset(extend(n), 0, n); }
  template <class T>
  void put(T value) {
    put(&value, sizeof value);
  }
  size_t at() const { return shared_ + written_; }
  // Zeros until at() + `ahead` is a multiple of `n`.
  void align(size_t n, size_t ahead = 0) { put_zeros((n - (at() + ahead) % n) % n); }
  // At `from` the distance to `to`, while nothing has been flushed.
  void write_offset(size_t from, uint64_t to) {
    auto distance = uint32_t(to - from);
    std::memcpy(begin_ + from, &distance, sizeof distance);
  }

  base::Status head() {
    put(uint32_t(kResponse));
    put(kVtables, sizeof kVtables);
    put(int32_t(kResponse - kResponseVtable));
    put(uint32_t(4));
    put(uint32_t(slots_.size()));
    size_t list = at();
    put_zeros(4 * slots_.size());
    for (const msg::Tensor* t : tensors_)
      if (auto status = tensor(*t); !status.ok()) return status;
    for (size_t i = 0; i < slots_.size(); ++i) write_offset(list + 4 * i, tables_[slots_[i]]);
    return {};
  }

  base::Status tensor(const msg::Tensor& t) {
    fb::Type type = type_of(t.dtype);
    if (type == fb::Type_Null)
      return base::failure(base::Code::kUnimplemented, "output '" + t.name + "' is " + std::string(msg::name(t.dtype)) +
                                                           ", for which GraphPipe has no type");
    bool text = t.dtype == DType::kBytes;
    align(4);
    size_t table = at();
    put(int32_t(table - (text ? kStringVtable : kNumericVtable)));
    put(uint32_t(0));
    put(uint32_t(0));
    put(uint32_t(type));
    tables_.push_back(table);
    align(8, 4);
    write_offset(table + kShapeField, at());
    put(uint32_t(t.shape.rank()));
    put(t.shape.dims().data(), 8 * t.shape.rank());
    if (text) strings(t, table);
    return {};
  }

  void strings(const msg::Tensor& t, size_t table) {
    write_offset(table + kDataField, at());
    put(uint32_t(*t.shape.elements()));
    size_t slot = at();
    put_zeros(4 * *t.shape.elements());
    msg::for_each_string(t.data.view(), [&](std::string_view element) {
      align(4);
      write_offset(slot, at());
      put(uint32_t(element.size()));
      put(element.data(), element.size());
      put_zeros(1);
      slot += 4;
    });
  }

  // Says where the data will be, while the tables can still be reached.
  base::Status place_data() {
    uint64_t end = at();
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i]->dtype == DType::kBytes) continue;
      uint64_t start = (end + 4 + kDataAlign - 1) / kDataAlign * kDataAlign;
      end = start + tensors_[i]->data.size();
      if (end > kLongest) return too_long();
      write_offset(tables_[i] + kDataField, start - 4);
    }
    return {};
  }

  void data(size_t i) {
    const base::Bytes& bytes = tensors_[i]->data;
    align(kDataAlign, 4);
    put(uint32_t(bytes.size()));
    if (bytes.size() < kLeastShared) return put(bytes.data(), bytes.size());
    flush();
    pieces_.push_back(bytes);
    shared_ += bytes.size();
  }

  void flush() {
    if (flushed_ == written_) return;
    pieces_.push_back(text_.slice(flushed_, written_ - flushed_));
    flushed_ = written_;
  }

  static base::Status too_long() {
    return base::failure(base::Code::kOutOfRange, "the outputs are larger than 2 GiB, which no flatbuffer holds");
  }

  std::vector<const msg::Tensor*> tensors_;
  std::vector<size_t> slots_;  // the answer's outputs -> tensors_
  std::vector<size_t> tables_;
  base::SlabSource& slabs_;
  base::Bytes text_;  // of all pieces but those of large tensors
  std::byte* begin_ = nullptr;
  size_t written_ = 0, flushed_ = 0;  // of text_; the second: in pieces_
  size_t shared_ = 0;                 // bytes of large tensors in pieces_
  std::vector<base::Bytes> pieces_;
};

}  // namespace

uint64_t strings_bytes(const msg::Tensor& tensor) {
  // Beside its length each has a place in the vector, a zero behind it, and up to three more.
  const uint64_t elements = std::min<uint64_t>(tensor.shape.elements().value_or(0), tensor.data.size() / 4);
  return 8 * elements + tensor.data.size();
}

base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors) {
  std::vector<size_t> all(tensors.size());
  std::iota(all.begin(), all.end(), size_t(0));
  return write_tensors(tensors, all);
}

base::Result<std::vector<base::Bytes>> write_tensors(const std::vector<msg::Tensor>& tensors,
                                                     std::span<const size_t> order, base::SlabSource& slabs) {
  return Layout(tensors, order, slabs).write();
}

}  // namespace weir::graphpipe
